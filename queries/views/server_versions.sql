-- one row per cluster and Kubernetes minor that its API servers said they are: (cluster, minor)
-- minor: such as 1.36
-- first_ts: when it was first seen
-- last_ts: when it was last seen
-- events: requests of an API server to itself
--
-- An API server asks itself as system:apiserver, and its user agent names its version. Two minors are seen during an upgrade.
SELECT
    cluster, regexp_extract(user_agent, '^kube-apiserver/v(\d+\.\d+)\.', 1) AS minor, min(stage_ts) AS first_ts,
    max(stage_ts) AS last_ts, count(*) AS events
FROM events
WHERE user_name = 'system:apiserver' AND starts_with(user_agent, 'kube-apiserver/v') AND minor <> ''
GROUP BY ALL
