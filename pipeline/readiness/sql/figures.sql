-- one row per (policy, binding): exposure and would-be denials
SELECT
    policy,
    binding,
    max(actions) AS actions,
    count(*) AS requests_matched,
    count(*) FILTER (WHERE outcome <> 'unknown') AS requests_judged,
    count(*) FILTER (WHERE outcome = 'unknown') AS requests_unknown,
    count(DISTINCT (namespace, resource, unit)) FILTER (WHERE outcome <> 'unknown') AS units_judged,
    count(DISTINCT user_name) AS users,
    count(DISTINCT namespace) AS namespaces,
    date_diff('second', min(ts), max(ts)) / 86400.0 AS days_span,
    count(DISTINCT ts::DATE) AS days_active,
    min(ts) AS first_ts,
    max(ts) AS last_ts,
    count(*) FILTER (WHERE outcome = 'deny') AS denied_requests,
    count(DISTINCT (namespace, resource, unit)) FILTER (WHERE outcome = 'deny') AS denied_units,
    count(DISTINCT user_name) FILTER (WHERE outcome = 'deny') AS denied_users,
    count(DISTINCT namespace) FILTER (WHERE outcome = 'deny') AS denied_namespaces,
    min(ts) FILTER (WHERE outcome = 'deny') AS denied_first_ts,
    max(ts) FILTER (WHERE outcome = 'deny') AS denied_last_ts
FROM outcomes
GROUP BY policy, binding
ORDER BY policy, binding
