-- one row per place that a run changes in objects that the server stores: how many requests, and the values of the latest one
-- path: without the numbers of entries
SELECT
    change ->> '$.op' AS op, regexp_replace(change ->> '$.path', '\[[0-9]+\]', '[*]', 'g') AS path,
    count(*) AS requests, arg_max(change ->> '$.before', (ts, audit_id)) AS before, arg_max(change ->> '$.after', (ts, audit_id)) AS after,
    arg_max(audit_id, (ts, audit_id)) AS example
FROM (
    SELECT audit_id, ts, unnest(from_json(detail -> '$.difference', '["JSON"]')) AS change
    FROM read_parquet($verdicts)
    WHERE decision = 'allow'
)
GROUP BY ALL
ORDER BY requests DESC, path, op
