-- one row per request that needs no record of its own, with the number of its question
SELECT cluster, audit_id, ts, stage_ts, 0::INTEGER AS pass, {number: number} AS question
FROM webhooks_plain JOIN webhooks_questions USING (question)
