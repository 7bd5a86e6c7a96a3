-- one row per recorded watch of a resource: (cluster, audit_id, ts), with the one that the same client opened next
-- number: of its question; ended: null while it is open
-- next_ts: when the same user, with the same client and the same selection, watched again
SELECT
    number, cluster, audit_id, user_name, ts AS started,
    CASE WHEN complete THEN stage_ts END AS ended,
    lead(ts) OVER (PARTITION BY cluster, user_name, user_agent, number ORDER BY ts, audit_id) AS next_ts
FROM conditions_asked
    JOIN conditions_questions USING (question)
    JOIN (SELECT cluster, audit_id, ts, user_name, user_agent, complete FROM requests WHERE verb = 'watch') USING (cluster, audit_id, ts)
ORDER BY ts, audit_id
