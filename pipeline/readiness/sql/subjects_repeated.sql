-- leaves the first row of each request in `subjects`
DELETE FROM subjects
WHERE rowid IN (
    SELECT place
    FROM (
        SELECT rowid AS place, row_number() OVER (PARTITION BY cluster, audit_id, ts ORDER BY stage_ts) AS number
        FROM subjects
        SEMI JOIN (FROM subjects SELECT cluster, audit_id, ts GROUP BY ALL HAVING count(*) > 1) USING (cluster, audit_id, ts)
    )
    WHERE number > 1
)
