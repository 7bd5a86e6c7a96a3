-- `watch_judged`: one row per (policy, binding, stretch of time, unit, outcome) with matched requests, and the earliest of them
-- unit: the workload, with cluster, namespace and resource
CREATE OR REPLACE TEMP TABLE watch_judged AS
WITH judged AS (
    SELECT
        policy, binding, cluster, audit_id, ts,
        CASE
            WHEN bool_or(effect = 'deny') THEN 'deny'
            WHEN bool_or(decision = 'unknown') THEN 'unknown'
            ELSE 'admit'
        END AS outcome,
        min(message) FILTER (WHERE effect = 'deny') AS message
    FROM read_parquet($verdicts)
    WHERE decision <> 'nomatch'
    GROUP BY ALL
),
subjects AS (
    SELECT
        cluster, audit_id, ts, user_name, namespace,
        workload(resource, name, recorded_object(response_object, request_object)) AS workload,
        concat_ws('|', cluster, namespace, resource, workload(resource, name, recorded_object(response_object, request_object))) AS unit
    FROM requests
    SEMI JOIN judged USING (cluster, audit_id, ts)
)
SELECT
    policy, binding,
    time_bucket(to_microseconds($stretch_us), ts) AS stretch,
    coalesce(unit, '') AS unit,
    outcome,
    count(*) AS requests,
    min(ts) AS first_ts,
    max(ts) AS last_ts,
    arg_min(audit_id, (ts, audit_id)) AS audit_id,
    arg_min(coalesce(message, ''), (ts, audit_id)) AS message,
    arg_min(coalesce(user_name, ''), (ts, audit_id)) AS user_name,
    arg_min(coalesce(namespace, ''), (ts, audit_id)) AS namespace,
    arg_min(coalesce(workload, ''), (ts, audit_id)) AS workload
FROM judged LEFT JOIN subjects USING (cluster, audit_id, ts)
GROUP BY policy, binding, stretch, unit, outcome
