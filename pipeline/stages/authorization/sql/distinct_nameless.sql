-- as `distinct`, where requests that differ only in the name of their object have one question if no role gives permissions by name
SELECT
    cluster, verb,
    CASE
        WHEN nameless_uri <> '' AND impersonated_user = '' AND own = '' AND message = '' AND code <> 201
            AND list_position(['attach', 'exec', 'portforward'], subresource) IS NULL AND ($unnamed)
        THEN nameless_uri
        ELSE sorted.uri
    END AS uri,
    user_name, user_groups, impersonated_user, user_extra, impersonation_constraint, api_group, version,
    resource, subresource, namespace, name, decision, reason, code, message, wording, redacted, own,
    count(*) AS requests,
    min(ts) AS first_ts,
    max(ts) AS last_ts,
    arg_min(audit_id, (ts, audit_id)) AS example
FROM asked AS sorted
GROUP BY ALL
ORDER BY first_ts, example, uri
