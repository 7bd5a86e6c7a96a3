-- warn: one auditID names several requests, as clients may choose it; counts are by (cluster, audit_id, ts)
SELECT cluster, audit_id, count(*) AS requests
FROM requests
GROUP BY ALL
HAVING count(*) > 1
