-- one row per (definition, version, code, errors) of newly refused requests but for dry runs, the most frequent first
-- errors: a JSON list; empty where a request is refused without field errors
SELECT
    policy AS definition, api_version AS version, refused.code, coalesce(detail -> '$.errors', '[]')::VARCHAR AS errors,
    count(*) AS requests
FROM read_parquet($verdicts) AS refused ANTI JOIN dry_runs USING (cluster, audit_id, ts) JOIN requests USING (cluster, audit_id, ts)
WHERE flip = 'newly-denied'
GROUP BY ALL
ORDER BY requests DESC, definition, version, refused.code, errors
