-- one row per (policy, binding, expression, message) of denials that errors alone make, the most frequent first
SELECT policy, binding, expression_index, coalesce(message, '') AS message, count(*) AS requests
FROM outcomes
WHERE outcome = 'deny' AND is_failed
GROUP BY ALL
ORDER BY policy, binding, requests DESC, expression_index, message
