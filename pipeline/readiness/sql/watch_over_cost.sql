-- one row per (policy, binding, stretch of time) with requests whose evaluation a CEL cost limit of the API server ended
SELECT
    policy, binding,
    time_bucket(to_microseconds($stretch_us), ts) AS stretch,
    count(*) AS requests
FROM over_cost_requests
GROUP BY ALL
ORDER BY policy, binding, stretch
