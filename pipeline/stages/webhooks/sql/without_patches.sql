-- one row per (operation, path) of the recorded patches of one webhook: what later stages would not have seen
-- path: without the numbers of entries; requests: distinct ones
SELECT
    operation ->> '$.op' AS op, regexp_replace(operation ->> '$.path', '/[0-9]+(/|$)', '/*\1', 'g') AS path,
    count(DISTINCT (cluster, audit_id, ts)) AS requests, arg_max(audit_id, (ts, audit_id)) AS example
FROM (
    SELECT cluster, audit_id, ts, unnest(from_json(value -> '$.patch', '["JSON"]')) AS operation
    FROM (
        SELECT cluster, audit_id, ts, unnest(map_entries(annotations), recursive := true)
        FROM requests
        WHERE (cluster, audit_id, ts) IN (SELECT (cluster, audit_id, ts) FROM webhooks_without WHERE said = 'changed')
    )
    WHERE starts_with(key, 'patch.webhook.admission.k8s.io/') AND json_valid(value) AND value ->> '$.webhook' = $webhook
        AND ($configuration IS NULL OR value ->> '$.configuration' = $configuration)
)
GROUP BY ALL
ORDER BY requests DESC, path, op
