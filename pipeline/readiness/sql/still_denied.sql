-- one row: how many requests, but for dry runs, a run newly denies
SELECT count(DISTINCT (cluster, audit_id, ts))
FROM read_parquet($verdicts) ANTI JOIN dry_runs USING (cluster, audit_id, ts)
WHERE flip = 'newly-denied'
