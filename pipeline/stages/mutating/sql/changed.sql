-- one row per (policy, operation, path): what each policy changes, the most frequent first
-- op: add, remove or replace; before and after: JSON of the values in the latest of these requests; example: its auditID
-- path: with * for the number of an entry of a list
SELECT
    policy, change ->> '$.op' AS op, regexp_replace(change ->> '$.path', '\[\d+\]', '[*]', 'g') AS path,
    count(DISTINCT (cluster, audit_id, ts)) AS requests,
    arg_max(change -> '$.before', (ts, audit_id))::VARCHAR AS before,
    arg_max(change -> '$.after', (ts, audit_id))::VARCHAR AS after,
    arg_max(audit_id, (ts, audit_id)) AS example
FROM (
    SELECT cluster, audit_id, ts, policy, unnest(json_extract(detail, '$.difference[*]')) AS change
    FROM read_parquet($verdicts)
    WHERE policy <> 'mutating' AND detail IS NOT NULL
)
GROUP BY ALL
ORDER BY policy, requests DESC, path
