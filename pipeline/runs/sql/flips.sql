-- one row per (flip, user, verb, resource, namespace, rule, why): requests whose verdict is of this kind, the worst first
-- flip: how the verdict differs from the record; why: for an unknown verdict, the missing evidence
-- resource: with its group and subresource, as in deployments.apps/scale; for a URL that is not of a resource, its path
-- example: the auditID of the latest of these requests
FROM (
    SELECT
        flip,
        user_name,
        verb,
        coalesce(
            resource || CASE WHEN api_group <> '' THEN '.' || api_group ELSE '' END
                || CASE WHEN subresource <> '' THEN '/' || subresource ELSE '' END,
            split_part(request_uri, '?', 1)
        ) AS resource,
        namespace,
        rule_ref,
        CASE WHEN flip = 'unknown' THEN why ELSE message END AS why,
        count(DISTINCT (cluster, audit_id, ts)) AS requests,
        min(ts) AS first_ts,
        max(ts) AS last_ts,
        arg_max(audit_id, (ts, audit_id)) AS example
    FROM read_parquet($verdicts) JOIN requests USING (cluster, audit_id, ts)
    WHERE flip IS NOT NULL
    GROUP BY ALL
)
ORDER BY
    list_position(['newly-denied', 'newly-allowed', 'changed', 'unknown', 'still-denied', 'same'], flip),
    requests DESC, user_name, verb, resource, namespace, rule_ref, why
