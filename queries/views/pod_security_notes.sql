-- one row per thing that the plugin PodSecurity noted of a request: (cluster, audit_id, ts, note)
-- note: `enforce-policy` (the policy that was enforced), `audit-violations`, `exempt`, `error`, or `refused`
-- level: of the policy; null for `exempt` and `error`
-- version: as in the label of the namespace
-- message: the violations, the error, or why the request is exempt; null for `enforce-policy`
-- user_name: effective user: the impersonated one where the request impersonated
-- workload: `Kind/name` of the controlling owner where a recorded body names one, else of the object; reads bodies, so it is slow
--
-- `enforce-policy` says nothing of violations. Templates are judged in the modes audit and warn only, and warnings are in no log.
WITH noted AS (
    SELECT
        *,
        list_filter(map_entries(annotations), lambda entry: starts_with(entry.key, 'pod-security.kubernetes.io/')) AS told,
        CASE WHEN outcome = 'podsecurity' THEN [{key: 'pod-security.kubernetes.io/refused', value: coalesce(status_message, '')}] ELSE [] END AS refusal
    FROM requests
    WHERE len(list_filter(map_keys(annotations), lambda key: starts_with(key, 'pod-security.kubernetes.io/'))) > 0
        OR (code = 403 AND resource = 'pods')
),
entries AS (
    SELECT * EXCLUDE (notes, told, refusal, annotations), unnest(list_concat(told, refusal)) AS entry FROM noted
),
parsed AS (
    SELECT
        *,
        split_part(entry.key, '/', 2) AS note,
        CASE split_part(entry.key, '/', 2)
            WHEN 'enforce-policy' THEN regexp_extract(entry.value, '^([a-z]+):([^ ]+)$', ['level', 'version'])
            ELSE regexp_extract(entry.value, 'violates? PodSecurity "([a-z]+):([^"]+)"', ['level', 'version'])
        END AS policy
    FROM entries
)
SELECT
    cluster, audit_id, ts, note,
    nullif(policy.level, '') AS level,
    nullif(policy.version, '') AS version,
    CASE
        WHEN note = 'enforce-policy' THEN NULL
        WHEN note IN ('exempt', 'error') THEN entry.value
        ELSE nullif(regexp_replace(entry.value, '^.*?violates? PodSecurity "[a-z]+:[^"]+"(: )?', '', 's'), '')
    END AS message,
    verb, api_group, api_version, resource, subresource, namespace, name,
    user_name, impersonator, user_agent, code, outcome,
    workload(api_group, resource, name, recorded_object(response_object, request_object)) AS workload
FROM parsed
