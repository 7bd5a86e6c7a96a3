-- one row per recorded list or watch with an auditID: what a chain is asked, and what the log has of its authorization
SELECT
    cluster, ts, verb, request_uri, user_name, coalesce(user_groups, []) AS user_groups,
    coalesce(api_group, '') AS api_group, coalesce(resource, '') AS resource,
    annotations['authorization.k8s.io/decision'] AS decision, coalesce(annotations['authorization.k8s.io/reason'], '') AS reason
FROM requests
WHERE audit_id = $audit_id AND ($cluster IS NULL OR cluster = $cluster)
ORDER BY ts, cluster
