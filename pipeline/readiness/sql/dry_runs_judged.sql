-- one row: how many dry runs the manifests of a run matched or may have matched
-- untold: how many further requests they matched of which the log has no URI, so that each may have been a dry run
WITH judged AS (SELECT cluster, audit_id, ts FROM read_parquet($verdicts) WHERE decision <> 'nomatch'),
untold AS (
    SELECT DISTINCT cluster, audit_id, ts
    FROM folded_requests ANTI JOIN dry_runs USING (cluster, audit_id, ts)
    WHERE coalesce(request_uri, '') = '' AND list_position(['create', 'update', 'patch', 'delete', 'deletecollection'], verb) > 0
)
SELECT
    (SELECT count(*) FROM dry_runs SEMI JOIN judged USING (cluster, audit_id, ts)) AS requests,
    (SELECT count(*) FROM untold SEMI JOIN judged USING (cluster, audit_id, ts)) AS untold
