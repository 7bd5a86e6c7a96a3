-- one row per audit annotation that a policy declared and a request carries: (cluster, audit_id, ts, policy, key)
-- policy: the part of the annotation key before the slash
-- key: the part after the slash, the key in spec.auditAnnotations
-- value: values of several bindings or params are joined with `, ` by the server, and may contain `, ` themselves
-- declared_by: `policy` where the lake knows such a policy or the name cannot be a webhook's, else `policy or webhook`
-- user_name: effective user: the impersonated one where the request impersonated
--
-- Webhooks write annotations of the same form, WEBHOOK/KEY. Their names need at least three segments
-- (kubernetes/kubernetes pkg/apis/admissionregistration/validation), those of most policies have one.
WITH entries AS (
    SELECT * EXCLUDE (annotations), unnest(map_entries(annotations)) AS entry
    FROM requests
    -- Most requests carry only the authorizer's annotations. The condition on this one column is pushed down to the files.
    WHERE resource IS NOT NULL
        AND len(list_filter(map_keys(annotations), lambda key: NOT starts_with(key, 'authorization.k8s.io/'))) > 0
),
declared AS (
    SELECT *, split_part(entry.key, '/', 1) AS policy, split_part(entry.key, '/', 2) AS annotation_key
    FROM entries
    WHERE NOT server_annotation(entry.key)
        AND regexp_full_match(entry.key, '[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?/[A-Za-z0-9](?:[-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?')
)
SELECT
    declared.cluster, declared.audit_id, declared.ts,
    declared.policy, declared.annotation_key AS key, declared.entry.value AS value,
    CASE
        WHEN known_policies.policy IS NOT NULL OR len(split(declared.policy, '.')) < 3 THEN 'policy'
        ELSE 'policy or webhook'
    END AS declared_by,
    verb, api_group, api_version, resource, subresource, namespace, name, user_name, impersonator, code, outcome
FROM declared LEFT JOIN known_policies USING (cluster, policy)
