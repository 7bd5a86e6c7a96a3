-- one row per distinct question of `webhooks_plain`, with its number and the time of its first request
CREATE OR REPLACE TEMP TABLE webhooks_questions AS
SELECT question, row_number() OVER (ORDER BY question) AS number, first_ts
FROM (SELECT question, min(ts) AS first_ts FROM webhooks_plain GROUP BY question)
