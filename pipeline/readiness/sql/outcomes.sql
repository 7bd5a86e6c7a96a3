-- one row per (policy, binding, cluster, audit_id) that the policy matched or may have matched
-- outcome: deny if anything would deny the request; else unknown if anything could not be judged; else admit.
-- unit: the workload that the request is about: see macro workload; retries of one controller are one unit
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
        concat_ws('/', r.resource, nullif(r.subresource, '')) AS resource,
        workload(r.resource, r.name, recorded_object(r.response_object, r.request_object)) AS unit
    FROM requests AS r
    SEMI JOIN judged AS j ON r.cluster = j.cluster AND r.audit_id = j.audit_id
    QUALIFY row_number() OVER (PARTITION BY r.cluster, r.audit_id ORDER BY r.ts) = 1
)

SELECT
    j.*,
    coalesce(u.user_name, '') AS user_name,
    coalesce(u.namespace, '') AS namespace,
    coalesce(u.resource, '') AS resource,
    coalesce(u.unit, '') AS unit
FROM judged AS j
LEFT JOIN subjects AS u ON j.cluster = u.cluster AND j.audit_id = u.audit_id
