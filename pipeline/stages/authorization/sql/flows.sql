-- one row per (namespace, resource, reference) of a service account's writes: where it wrote, and to which other namespace the object
-- refers. from_namespace: of the claim that the object serves (spec.claimRef), or of the object that a claim got (spec.resourceRef);
-- null where the body names neither, or was not recorded
SELECT
    coalesce(namespace, '') AS namespace,
    concat_ws('.', resource, nullif(api_group, '')) AS resource,
    nullif(coalesce(body ->> '$.spec.claimRef.namespace', body ->> '$.spec.resourceRef.namespace'), '') AS from_namespace,
    coalesce(body ->> '$.spec.claimRef.name', body ->> '$.spec.resourceRef.name') IS NOT NULL AS has_reference,
    bool_or(body IS NOT NULL) AS has_body,
    count(*) AS requests,
    max(ts) AS last_ts,
    arg_max(audit_id, (ts, audit_id)) AS example
FROM (
    SELECT *, recorded_object(response_object, request_object) AS body
    FROM requests
    WHERE user_name = $user AND code BETWEEN 200 AND 299
        AND verb IN ('create', 'update', 'patch', 'delete', 'deletecollection')
        AND resource NOT IN ('selfsubjectaccessreviews', 'selfsubjectrulesreviews', 'tokenreviews')
)
GROUP BY ALL
ORDER BY namespace, resource, from_namespace
