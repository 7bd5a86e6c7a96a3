-- one row per (policy, binding, cluster, namespace, unit, user) with at least one would-be denial, as many of each as are listed
-- resource: of the denied requests; several are joined by commas
SELECT
    policy,
    binding,
    cluster,
    namespace,
    string_agg(DISTINCT plain, ', ' ORDER BY plain) AS resource,
    unit,
    user_name,
    count(*) AS requests,
    min(ts) AS first_ts,
    max(ts) AS last_ts,
    arg_max(message, (ts, audit_id)) AS message,
    arg_max(audit_id, (ts, audit_id)) AS audit_id,
    arg_max(expression_index, (ts, audit_id)) AS expression_index
FROM (
    SELECT *, regexp_replace(resource, '^([^./]+)\.[^/]+', '\1') AS plain FROM outcomes WHERE outcome = 'deny'
)
GROUP BY policy, binding, cluster, namespace, unit, user_name
QUALIFY row_number() OVER (PARTITION BY policy, binding ORDER BY requests DESC, namespace, unit, user_name, cluster) <= $listed_max
ORDER BY policy, binding, requests DESC, namespace, unit, user_name, cluster
