-- one row per write whose objects decide, with the number of its question: (cluster, audit_id, ts, stage_ts, number)
SELECT cluster, audit_id, ts, stage_ts, number
FROM conditions_asked JOIN conditions_questions USING (question) JOIN conditions_written USING (number)
