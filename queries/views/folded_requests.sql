-- one row per audit request: (cluster, audit_id, ts), its stages folded into the one that decided; `requests` without their outcome
-- stage: the stage that decided: ResponseComplete or Panic, else the latest one recorded
-- complete: false where no final stage was recorded: still open, or lost
-- stages: how many stages of the request were recorded
-- user_name: effective user: the impersonated one where the request impersonated
-- user_groups: groups of the effective user
-- impersonator: the authenticated user where the request impersonated, else null
--
-- The two final stages exclude each other (kubernetes/apiserver pkg/endpoints/filters/audit.go), so the final rows need no folding.
-- Only rows of earlier stages are joined, and most audit policies omit most of those. NOT MATERIALIZED pushes the filters and
-- columns of a query down to the files. A subquery counts the earlier stages. With a LEFT JOIN, DuckDB may hash the larger side,
-- which is every final event with its bodies. Requests without a final stage are found among the events at the times of earlier
-- stages; a bound on `ts` reaches both sides of that join.
WITH early AS NOT MATERIALIZED (
    SELECT cluster, audit_id, ts, count(*) AS stages
    FROM events
    WHERE stage NOT IN ('ResponseComplete', 'Panic')
    GROUP BY ALL
),
final AS NOT MATERIALIZED (
    SELECT
        *,
        true AS complete,
        1 + coalesce((
            SELECT stages FROM early
            WHERE early.cluster = events.cluster AND early.audit_id = events.audit_id AND early.ts = events.ts
        ), 0) AS stages
    FROM events
    WHERE stage IN ('ResponseComplete', 'Panic')
),
open AS NOT MATERIALIZED (
    SELECT cluster, audit_id, ts, count(*) AS stages
    FROM events JOIN (SELECT DISTINCT ts FROM events WHERE stage NOT IN ('ResponseComplete', 'Panic')) USING (ts)
    GROUP BY ALL
    HAVING count(*) FILTER (stage IN ('ResponseComplete', 'Panic')) = 0
),
unfinished AS NOT MATERIALIZED (
    SELECT events.*, false AS complete, open.stages
    FROM events JOIN open USING (cluster, audit_id, ts)
    WHERE stage NOT IN ('ResponseComplete', 'Panic')
    QUALIFY row_number() OVER (PARTITION BY cluster, audit_id, ts ORDER BY stage_ts DESC, stage DESC) = 1
),
folded AS (
    FROM final
    UNION ALL
    FROM unfinished
)
SELECT
    cluster, audit_id, ts, stage, stage_ts, complete, stages, level, verb, request_uri,
    coalesce(impersonated_user ->> '$.username', user_name) AS user_name,
    CASE
        WHEN impersonated_user IS NULL THEN user_groups
        ELSE coalesce(from_json(impersonated_user -> '$.groups', '["VARCHAR"]'), [])
    END AS user_groups,
    CASE WHEN impersonated_user IS NOT NULL THEN user_name END AS impersonator,
    source_ips, user_agent, api_group, api_version, resource, subresource, namespace, name, obj_uid, obj_rv,
    code, status_reason, status_message, annotations, vap_failures, request_object, response_object, flags
FROM folded
