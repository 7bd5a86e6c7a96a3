-- one row per pass of a request that some chain is about, with the numbers of its answers
SELECT cluster, audit_id, ts, stage_ts, pass, {answers: list(answer ORDER BY answer)} AS question
FROM conditions_passes
GROUP BY ALL
