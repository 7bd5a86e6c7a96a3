-- one row per (policy, binding, unit, expression) with a would-be denial in `shown`: its latest request, with the recorded bodies
-- $by_user: one row for each user
-- expression_index: null where no single validation denied, such as an error of a match condition
WITH denied AS (
    SELECT
        policy, binding, cluster, audit_id, ts,
        min(expression_index) AS expression_index,
        arg_min(message, expression_index) AS message,
        any_value(message) AS any_message
    FROM read_parquet($verdicts) AS v
    SEMI JOIN shown AS s
        ON s.policy = v.policy AND s.binding IS NOT DISTINCT FROM v.binding AND s.cluster = v.cluster AND s.audit_id = v.audit_id
        AND s.ts = v.ts
    WHERE effect = 'deny'
    GROUP BY ALL
)
SELECT
    denied.policy, denied.binding, denied.cluster, denied.audit_id, denied.ts,
    expression_index,
    coalesce(denied.message, any_message, '') AS message,
    user_name, verb,
    coalesce(namespace, '') AS namespace,
    concat_ws('/', concat_ws('.', resource, nullif(api_group, '')), nullif(subresource, '')) AS resource,
    coalesce(object_name(name, verb, response_object), name, '') AS name,
    recorded_object(response_object, request_object)::VARCHAR AS object
FROM denied JOIN folded_requests USING (cluster, audit_id, ts)
QUALIFY row_number() OVER (
        PARTITION BY denied.policy, denied.binding, cluster, namespace, resource, expression_index,
            workload(api_group, resource, name, recorded_object(response_object, request_object)), CASE WHEN $by_user THEN user_name END
        ORDER BY ts DESC, audit_id
    ) = 1
ORDER BY ts DESC, audit_id, denied.policy, denied.binding
