-- one row per (policy, why) that Hindcast failed to judge, with the requests that this leaves unknown
SELECT policy, why, count(DISTINCT (cluster, audit_id, ts)) AS requests
FROM read_parquet($verdicts)
WHERE decision = 'unknown' AND contains(why, $defect)
GROUP BY policy, why
ORDER BY policy, why
