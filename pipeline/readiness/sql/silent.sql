-- one row per (policy, binding, expression, message) of denials whose messageExpression has no result to use, the most frequent first
-- message: why; the server writes this to its own log alone, and sends the text of the validation
SELECT policy, binding, expression_index, substr(why, 1 + length('messageExpression: ')) AS message, count(*) AS requests
FROM outcomes
WHERE outcome = 'deny' AND starts_with(why, 'messageExpression: ')
GROUP BY ALL
ORDER BY policy, binding, requests DESC, expression_index, message
