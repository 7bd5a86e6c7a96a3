-- one row per (cluster, minor) that an API server names in its requests to itself
SELECT DISTINCT cluster, regexp_extract(user_agent, '^kube-apiserver/v1\.([0-9]{1,3})\.', 1)::INTEGER AS minor
FROM events
WHERE user_name = 'system:apiserver' AND regexp_matches(user_agent, '^kube-apiserver/v1\.[0-9]{1,3}\.')
