-- one row per (definition, resource) of a run: how far the definitions of the time explain the recorded answers
-- compared: requests with a recorded answer of this stage, but for dry runs; agreed: answers and objects that they explain
-- unknown: requests whose record lacks something, so that nothing is compared
SELECT
    policy AS definition,
    resource || '.' || api_group || CASE WHEN coalesce(subresource, '') <> '' THEN '/' || subresource ELSE '' END AS resource,
    count(*) FILTER (detail ->> '$.record' IS NOT NULL) AS compared,
    count(*) FILTER (detail ->> '$.record' = 'agrees') AS agreed,
    count(*) FILTER (detail ->> '$.record' IS NULL AND decision = 'unknown') AS unknown
FROM read_parquet($verdicts) ANTI JOIN dry_runs USING (cluster, audit_id, ts) JOIN requests USING (cluster, audit_id, ts)
GROUP BY ALL
ORDER BY ALL
