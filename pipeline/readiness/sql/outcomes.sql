-- one row per (policy, binding, cluster, audit_id) that the policy matched or may have matched
-- outcome: deny if anything would deny the request; else unknown if anything could not be judged; else admit.
-- unit: the root owner as far as the request itself tells: the controller of a Pod (for a ReplicaSet its Deployment), else the object.
CREATE OR REPLACE TEMP TABLE outcomes AS
WITH judged AS (
    SELECT
        policy,
        binding,
        cluster,
        audit_id,
        min(ts) AS ts,
        CASE
            WHEN bool_or(effect = 'deny') THEN 'deny'
            WHEN bool_or(decision = 'unknown') THEN 'unknown'
            ELSE 'admit'
        END AS outcome,
        min(message) FILTER (WHERE effect = 'deny') AS message,
        min(why) FILTER (WHERE decision = 'unknown') AS why,
        max(actions) AS actions
    FROM verdicts
    WHERE decision <> 'nomatch'
    GROUP BY policy, binding, cluster, audit_id
),

-- auditID is chosen by the client: should it repeat, the first request of that name stands for all of them.
subjects AS (
    SELECT
        r.cluster,
        r.audit_id,
        r.user_name,
        coalesce(r.namespace, '') AS namespace,
        CASE WHEN r.subresource IS NULL THEN r.resource ELSE r.resource || '/' || r.subresource END AS resource,
        coalesce(r.name, '') AS name,
        CASE
            WHEN r.response_object IS NOT NULL AND json_extract_string(r.response_object, '$.kind') <> 'Status' THEN r.response_object
            ELSE r.request_object
        END AS body
    FROM requests AS r
    SEMI JOIN judged AS j ON r.cluster = j.cluster AND r.audit_id = j.audit_id
    QUALIFY row_number() OVER (PARTITION BY r.cluster, r.audit_id ORDER BY r.ts) = 1
),

units AS (
    SELECT
        * EXCLUDE (body, name),
        CASE
            WHEN owner_kind = 'ReplicaSet' AND template_hash IS NOT NULL THEN regexp_replace(owner_name, '-' || template_hash || '$', '')
            ELSE coalesce(owner_name, rtrim(nullif(generate_name, ''), '-'), name)
        END AS unit
    FROM (
        SELECT
            *,
            json_extract_string(body, '$.metadata.ownerReferences[0].kind') AS owner_kind,
            json_extract_string(body, '$.metadata.ownerReferences[0].name') AS owner_name,
            json_extract_string(body, '$.metadata.generateName') AS generate_name,
            json_extract_string(body, '$.metadata.labels."pod-template-hash"') AS template_hash
        FROM subjects
    )
)

SELECT
    j.*,
    coalesce(u.user_name, '') AS user_name,
    coalesce(u.namespace, '') AS namespace,
    coalesce(u.resource, '') AS resource,
    coalesce(u.unit, '') AS unit
FROM judged AS j
LEFT JOIN units AS u ON j.cluster = u.cluster AND j.audit_id = u.audit_id
