-- one row per audit request: (cluster, audit_id, ts), its stages folded into the one that decided; `requests` without their outcome
-- stage: the stage that decided: ResponseComplete or Panic, else the latest one recorded
-- complete: false where no final stage was recorded: still open, or lost
-- stages: how many stages of the request were recorded
-- user_name: effective user: the impersonated one where the request impersonated
-- user_groups: groups of the effective user
-- impersonator: the authenticated user where the request impersonated, else null
SELECT
    cluster, audit_id, ts, stage, stage_ts, complete, stages, level, verb, request_uri,
    CASE WHEN json_valid(impersonated_user) IS FALSE THEN NULL ELSE coalesce(impersonated_user ->> '$.username', user_name) END AS user_name,
    CASE
        WHEN impersonated_user IS NULL THEN user_groups
        ELSE coalesce(TRY(from_json(impersonated_user -> '$.groups', '["VARCHAR"]')), [])
    END AS user_groups,
    CASE WHEN impersonated_user IS NOT NULL THEN user_name END AS impersonator,
    source_ips, user_agent, api_group, api_version, resource, subresource, namespace, name, obj_uid, obj_rv,
    code, status_reason, status_message, annotations, notes, vap_failures, request_object, response_object, flags
FROM deciding_events
