-- one row per (policy, binding): exposure and would-be denials
WITH last_denials AS (
    SELECT policy, binding, max(ts) AS denied_last_ts FROM outcomes WHERE outcome = 'deny' GROUP BY ALL
)
SELECT
    o.policy,
    o.binding,
    max(actions) AS actions,
    count(*) AS requests_matched,
    count(*) FILTER (WHERE outcome <> 'unknown') AS requests_judged,
    count(*) FILTER (WHERE outcome = 'unknown') AS requests_unknown,
    count(*) FILTER (WHERE outcome = 'admit' AND is_error) AS requests_excused,
    count(DISTINCT (cluster, namespace, unit)) FILTER (WHERE outcome <> 'unknown') AS units_judged,
    count(DISTINCT user_name) AS users,
    count(DISTINCT user_name) FILTER (WHERE outcome <> 'unknown') AS users_judged,
    count(DISTINCT namespace) AS namespaces,
    date_diff('second', min(ts), max(ts)) / 86400.0 AS days_span,
    count(DISTINCT ts::DATE) AS days_active,
    count(DISTINCT isodow(ts)) FILTER (WHERE outcome <> 'unknown') AS weekdays,
    list_sort(list(DISTINCT resource)) AS resources,
    min(ts) AS first_ts,
    max(ts) AS last_ts,
    count(*) FILTER (WHERE outcome = 'deny') AS denied_requests,
    count(*) FILTER (WHERE outcome = 'deny' AND is_failed) AS failed_requests,
    count(DISTINCT (cluster, namespace, unit)) FILTER (WHERE outcome = 'deny') AS denied_units,
    count(DISTINCT user_name) FILTER (WHERE outcome = 'deny') AS denied_users,
    count(DISTINCT namespace) FILTER (WHERE outcome = 'deny') AS denied_namespaces,
    count(DISTINCT (cluster, namespace, unit, user_name)) FILTER (WHERE outcome = 'deny') AS denied_owners,
    min(ts) FILTER (WHERE outcome = 'deny') AS denied_first_ts,
    any_value(d.denied_last_ts) AS denied_last_ts,
    count(*) FILTER (WHERE outcome = 'admit' AND ts > coalesce(d.denied_last_ts, '-infinity')) AS clean_requests,
    count(DISTINCT (cluster, namespace, unit)) FILTER (WHERE outcome = 'admit' AND ts > coalesce(d.denied_last_ts, '-infinity'))
        AS clean_units
FROM outcomes AS o
LEFT JOIN last_denials AS d ON d.policy = o.policy AND d.binding IS NOT DISTINCT FROM o.binding
GROUP BY o.policy, o.binding
ORDER BY o.policy, o.binding
