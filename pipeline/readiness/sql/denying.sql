-- one row per policy with would-be denials of a run: the indices of the expressions that denied
SELECT policy, list(DISTINCT expression_index ORDER BY expression_index) AS expressions
FROM read_parquet($verdicts) ANTI JOIN dry_runs USING (cluster, audit_id, ts)
WHERE effect = 'deny' AND expression_index IS NOT NULL
GROUP BY ALL
ORDER BY ALL
