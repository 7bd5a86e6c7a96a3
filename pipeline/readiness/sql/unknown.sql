-- one row per (policy, binding, missing evidence) with the requests that it left unjudged
SELECT policy, binding, coalesce(why, '') AS why, count(*) AS requests
FROM outcomes
WHERE outcome = 'unknown'
GROUP BY ALL
ORDER BY policy, binding, requests DESC, why
