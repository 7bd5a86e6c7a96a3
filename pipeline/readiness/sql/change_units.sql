-- one row per (policy, binding, fate, cluster, namespace, unit, user), as many of each fate as are listed
-- resource: of the requests; several are joined by commas
SELECT
    policy, binding, fate,
    namespace,
    string_agg(DISTINCT plain, ', ' ORDER BY plain) AS resource,
    unit,
    user_name AS user,
    count(*) AS requests,
    min(ts) AS first_ts,
    max(ts) AS last_ts,
    coalesce(arg_max(coalesce(message, ''), (ts, audit_id)), '') AS message,
    arg_max(audit_id, (ts, audit_id)) AS audit_id,
    arg_max(expression_index, (ts, audit_id)) AS expression_index
FROM (
    SELECT * REPLACE (CASE WHEN fate = 'unknown' THEN why ELSE message END AS message),
        regexp_replace(resource, '^([^./]+)\.[^/]+', '\1') AS plain
    FROM changed
)
GROUP BY policy, binding, fate, cluster, namespace, unit, user_name
QUALIFY row_number() OVER (PARTITION BY policy, binding, fate ORDER BY requests DESC, namespace, unit, user_name, cluster) <= $listed_max
ORDER BY policy, binding, fate, requests DESC, namespace, unit, user_name, cluster
