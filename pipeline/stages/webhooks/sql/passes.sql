-- one row per pass of a request that a webhook is for, with the number of the answer
SELECT cluster, audit_id, ts, stage_ts, 0::INTEGER AS pass, {answer: answer} AS question
FROM webhooks_plain JOIN webhooks_questions USING (question) JOIN webhooks_answers USING (number)
UNION ALL
SELECT cluster, audit_id, ts, stage_ts, pass, {answer: answer} FROM webhooks_passes
