-- one row per number of a question in `webhooks_questions`, with the number of its requests
SELECT number, count(*) FROM webhooks_plain JOIN webhooks_questions USING (question) GROUP BY number
