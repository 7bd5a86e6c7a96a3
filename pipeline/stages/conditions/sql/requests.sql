-- one row per request of the questions in `conditions_timed`: the number of its question and its time, in the order of arrival
SELECT number, cluster, audit_id, ts, stage_ts
FROM conditions_asked JOIN conditions_questions USING (question) JOIN conditions_timed USING (number)
ORDER BY ts, stage_ts, audit_id
