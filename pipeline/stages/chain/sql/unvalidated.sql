-- one row per field of a resource that a folder changes and no rule of the validation knows: how many requests, and the latest one
-- doubt: the end of the reason, behind the path of the field and a colon
SELECT
    concat_ws('.', resource, nullif(api_group, '')) || coalesce('/' || nullif(subresource, ''), '') AS resource, path,
    count(*) AS requests, arg_max(audit_id, (ts, audit_id)) AS example
FROM (
    SELECT DISTINCT cluster, audit_id, ts, regexp_replace(split_part(part, ': ', 1), '\[[0-9]+\]', '[*]', 'g') AS path
    FROM (
        SELECT cluster, audit_id, ts, unnest(string_split(why, '; ')) AS part
        FROM read_parquet($verdicts)
        WHERE decision = 'unknown' AND why LIKE '%' || $doubt
    )
    WHERE ends_with(part, $doubt)
) JOIN requests USING (cluster, audit_id, ts)
GROUP BY ALL
ORDER BY requests DESC, resource, path
