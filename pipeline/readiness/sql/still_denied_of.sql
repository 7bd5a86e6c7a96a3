-- `still_denied`: one more row per (policy, request) that a replay with exemptions would deny
INSERT INTO still_denied
SELECT DISTINCT policy, cluster, audit_id, ts
FROM read_parquet($verdicts) ANTI JOIN dry_runs USING (cluster, audit_id, ts)
WHERE effect = 'deny'
