-- one row per (policy, resource) of the last comparison with the record: how many recorded outcomes the replay reproduced
SELECT
    c.policy,
    resource_label(nullif(r.api_group, ''), r.resource, r.subresource) AS resource,
    count(*) FILTER (result IN ('agreed', 'disagreed')) AS compared,
    count(*) FILTER (result = 'agreed') AS agreed,
    count(*) FILTER (result = 'unknown') AS unknown
FROM compared AS c
JOIN folded_requests AS r USING (cluster, audit_id, ts)
GROUP BY ALL
ORDER BY ALL
