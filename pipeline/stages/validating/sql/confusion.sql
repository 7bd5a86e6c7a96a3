-- one row per (policy, resource, recorded, replayed) of the last comparison: how many (request, binding) of it
SELECT
    compared.policy,
    resource_label(nullif(requests.api_group, ''), requests.resource, requests.subresource) AS resource,
    recorded,
    replayed,
    count(*) AS requests
FROM compared JOIN requests USING (cluster, audit_id, ts)
GROUP BY ALL
ORDER BY ALL
