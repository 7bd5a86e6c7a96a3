-- one row per (definition, change, path) of requests that are stored otherwise than recorded, the most frequent first
-- path: with [] for the items of lists; before, after: of the latest of these requests, as JSON
WITH changes AS (
    SELECT policy, cluster, audit_id, ts,
        unnest(from_json(detail -> '$.changes', '[{"kind": "VARCHAR", "path": "VARCHAR", "before": "JSON", "after": "JSON"}]')) AS change
    FROM read_parquet($verdicts)
    WHERE decision = 'change'
)
SELECT
    policy AS definition, change.kind AS change, regexp_replace(change.path, '\[\d+\]', '[]', 'g') AS path,
    count(DISTINCT (cluster, audit_id, ts)) AS requests,
    arg_max(change.before::VARCHAR, (ts, audit_id)) AS before,
    arg_max(change.after::VARCHAR, (ts, audit_id)) AS after,
    arg_max(audit_id, (ts, audit_id)) AS example
FROM changes
GROUP BY ALL
ORDER BY requests DESC, definition, path, change
