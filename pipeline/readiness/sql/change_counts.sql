-- one row per (policy, binding, fate): requests and workloads
SELECT policy, binding, fate, count(*) AS requests, count(DISTINCT (cluster, namespace, unit)) AS units
FROM changed
GROUP BY ALL
ORDER BY ALL
