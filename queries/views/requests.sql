-- one row per audit request: (cluster, audit_id, ts), its stages folded into the one that decided
-- stage: the stage that decided: ResponseComplete or Panic, else the latest one recorded
-- complete: false where no final stage was recorded: still open, or lost
-- stages: how many stages of the request were recorded
-- user_name: effective user: the impersonated one where the request impersonated
-- user_groups: groups of the effective user
-- impersonator: the authenticated user where the request impersonated, else null
-- outcome: `allowed`, `open` (no answer recorded yet), or the refuser: see `FROM reach_rules()`
--
-- The rules of `reach` decide outcomes.
WITH on_their_way AS NOT MATERIALIZED (
    SELECT
        *,
        request_way(verb, resource, subresource, code, NULL) AS way,
        recorded_wording(status_message, notes) AS wording
    FROM folded_requests
)
SELECT
    cluster, audit_id, ts, stage, stage_ts, complete, stages, level, verb, request_uri,
    user_name, user_groups, impersonator,
    source_ips, user_agent, api_group, api_version, resource, subresource, namespace, name, obj_uid, obj_rv,
    code, status_reason, status_message,
    reach_outcome(
        reach_rule(way, verb, api_group, resource, subresource, code, status_reason, status_message, wording, annotations, notes, NULL)
    ) AS outcome,
    annotations, notes, vap_failures, request_object, response_object, flags
FROM on_their_way
