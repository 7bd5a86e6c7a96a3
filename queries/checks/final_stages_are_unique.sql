-- fail: a request has two final stages, so that `requests` would count it twice
SELECT cluster, audit_id, ts, count(*) AS finals
FROM events
WHERE stage IN ('ResponseComplete', 'Panic')
GROUP BY ALL
HAVING count(*) > 1
