-- fail: two events of one cluster have the same audit_id, stage and stage_ts; the lake stored one event twice
SELECT cluster, audit_id, stage, stage_ts, count(*) AS events
FROM events
GROUP BY ALL
HAVING count(*) > 1
