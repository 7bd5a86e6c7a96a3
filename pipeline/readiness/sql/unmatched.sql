-- one row per (policy, binding, why) of the requests that met a policy's rules and did not match; binding: null for the policy's own
SELECT policy, binding, coalesce(why, '') AS why, count(DISTINCT (cluster, audit_id, ts)) AS requests
FROM verdicts
WHERE decision = 'nomatch'
GROUP BY ALL
ORDER BY policy, binding, requests DESC, why
