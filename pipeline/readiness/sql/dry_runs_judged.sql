-- one row: how many dry runs the manifests of a run matched or may have matched
-- untold: how many further requests they matched of which the log has no URI, so that each may have been a dry run
WITH judged AS (SELECT DISTINCT cluster, audit_id, ts FROM read_parquet($verdicts) WHERE decision <> 'nomatch')
SELECT
    (SELECT count(*) FROM judged SEMI JOIN dry_runs USING (cluster, audit_id, ts)) AS requests,
    (
        SELECT count(*)
        FROM judged SEMI JOIN (
            FROM folded_requests
            WHERE coalesce(request_uri, '') = '' AND list_position(['create', 'update', 'patch', 'delete', 'deletecollection'], verb) > 0
        ) USING (cluster, audit_id, ts) ANTI JOIN dry_runs USING (cluster, audit_id, ts)
    ) AS untold
