-- one row per (webhook, decision, why): why a webhook is not called, or why this is unknown, the most frequent first
-- why: without the names of the namespace or the object in it
-- resource: the most frequent one; resources: how many there are
-- example: the auditID of the latest of these requests
FROM (
    SELECT
        binding AS webhook, decision,
        coalesce(regexp_replace(message, '^\S+ ("[^"]*" )?is forbidden: ', ''), regexp_replace(why, ' does not select namespace .*$', ''), '') AS why,
        mode(resource || CASE WHEN api_group <> '' THEN '.' || api_group ELSE '' END
            || CASE WHEN subresource <> '' THEN '/' || subresource ELSE '' END) AS resource,
        count(DISTINCT (api_group, resource, subresource)) AS resources,
        count(*) AS passes,
        arg_max(audit_id, (ts, audit_id)) AS example
    FROM read_parquet($verdicts) JOIN requests USING (cluster, audit_id, ts)
    WHERE decision <> 'called'
    GROUP BY ALL
)
ORDER BY list_position(['error', 'unknown', 'unreached', 'nomatch'], decision), passes DESC, webhook, why
