-- one row per distinct question of the relation `passes`: how many requests have it, when, and one of them
-- times: of the requests of a node
SELECT
    question, count(*) AS requests, min(ts) AS first_ts, max(ts) AS last_ts, arg_min(audit_id, (ts, audit_id)) AS example,
    list(ts) FILTER (starts_with(question.user_name, 'system:node:')) AS times
FROM passes
GROUP BY question
ORDER BY first_ts, example
