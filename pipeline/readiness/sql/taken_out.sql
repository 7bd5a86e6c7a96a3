-- the audit IDs of the requests that one of these policies would deny, and no longer denies with exemptions
SELECT DISTINCT audit_id
FROM read_parquet($verdicts)
ANTI JOIN dry_runs USING (cluster, audit_id, ts)
ANTI JOIN still_denied USING (policy, cluster, audit_id, ts)
WHERE effect = 'deny' AND list_contains($names, policy)
ORDER BY ALL
