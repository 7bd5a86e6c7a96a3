-- one row: how many dry runs the manifests of a run matched or may have matched
SELECT count(*) AS requests
FROM (SELECT DISTINCT cluster, audit_id, ts FROM read_parquet($verdicts) WHERE decision <> 'nomatch')
SEMI JOIN dry_runs USING (cluster, audit_id, ts)
