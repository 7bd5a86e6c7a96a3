-- one row per verdict of a run; if the stage has no verdict on requests as a whole, also one per (request, pass), without a policy
-- rule_ref: the place of the rule that decided, as FILE#KIND/NAME/PATH, or without a file; null for a request as a whole
-- recorded: what this stage made of the request, as far as the log says: admit, deny or unknown
-- flip: how the verdict on the request as a whole differs from that; a request that the server refused for another reason is not
--   newly denied, but still denied
-- warnings: the texts of the warnings that the client would get because of a ratcheted rule of a schema
-- object: the predicted object, where it differs from the recorded one
-- cascade_of: the auditID of the create of the same object, if the run denies that one newly: this verdict follows from it
WITH verdicts AS (FROM read_parquet($verdicts)),
told AS (
    SELECT
        * REPLACE (
            CASE
                WHEN stage <> 'validating' THEN rule_ref
                ELSE concat('ValidatingAdmissionPolicy/', policy, '/spec.validations[' || expression_index || ']')
            END AS rule_ref
        ),
        effect = 'deny' AND (bypasses_actions OR binding IS NULL OR list_contains(actions, 'Deny')) AS rejects,
        decision = 'unknown' AND (bypasses_actions OR binding IS NULL OR list_contains(actions, 'Deny')) AS may_reject
    FROM verdicts
),
-- Policies that the run does not name still deny, unless its policies replace all others.
kept AS (
    SELECT DISTINCT cluster, audit_id, ts
    FROM denials
    WHERE denier = 'vap' AND NOT $only AND policy NOT IN (SELECT DISTINCT policy FROM verdicts)
),
whole AS (
    SELECT
        any_value(run_id) AS run_id, cluster, audit_id, ts, pass, any_value(stage) AS stage,
        bool_or(rejects) OR bool_or(kept.audit_id IS NOT NULL) AS is_denied,
        bool_or(may_reject) AS is_unknown,
        arg_min(told.message, expression_index) FILTER (rejects) AS message,
        min(why) FILTER (may_reject) AS why,
        min(code) FILTER (rejects) AS code,
        evidence_names()[min(list_position(evidence_names(), evidence)) FILTER (rejects)] AS evidence_of_denial,
        evidence_names()[min(list_position(evidence_names(), evidence)) FILTER (may_reject OR list_contains(actions, 'Deny'))]
            AS evidence_of_others
    FROM told LEFT JOIN kept USING (cluster, audit_id, ts)
    WHERE stage = 'validating'
    GROUP BY cluster, audit_id, ts, pass
),
judged AS (
    SELECT
        whole.*,
        -- The record says that a policy denied it that the run does not name.
        CASE WHEN is_denied THEN coalesce(evidence_of_denial, 'recorded') ELSE coalesce(evidence_of_others, 'exact') END AS evidence,
        CASE WHEN is_denied THEN 'deny' WHEN is_unknown THEN 'unknown' ELSE 'admit' END AS decision,
        CASE policies WHEN 'admitted' THEN 'admit' WHEN 'denied' THEN 'deny' ELSE 'unknown' END AS recorded,
        coalesce(recorded_code, 0) >= 400 AS has_failed
    FROM whole LEFT JOIN (SELECT cluster, audit_id, ts, policies, code AS recorded_code FROM reach) AS reached USING (cluster, audit_id, ts)
),
rows AS (
    SELECT
        * EXCLUDE (rejects, may_reject)
    FROM told
    UNION ALL BY NAME
    SELECT
        run_id, cluster, audit_id, ts, pass, stage, decision,
        CASE WHEN decision <> 'unknown' THEN decision END AS effect,
        message, why, code, evidence, recorded,
        []::VARCHAR[] AS actions, MAP {}::MAP(VARCHAR, VARCHAR) AS audit_annotations, false AS bypasses_actions,
        CASE
            WHEN 'unknown' IN (decision, recorded) THEN 'unknown'
            WHEN decision = recorded THEN CASE decision WHEN 'deny' THEN 'still-denied' ELSE 'same' END
            WHEN decision = 'deny' AND has_failed THEN 'still-denied'
            WHEN decision = 'deny' THEN 'newly-denied'
            ELSE 'newly-allowed'
        END AS flip
    FROM judged
),
places AS (
    SELECT cluster, audit_id, ts, api_group, resource, namespace, name
    FROM requests
    WHERE resource IS NOT NULL AND name IS NOT NULL AND coalesce(subresource, '') = ''
),
creates AS (
    SELECT cluster, api_group, resource, namespace, name, ts AS created_ts, audit_id AS created_by
    FROM requests
    WHERE verb = 'create' AND code BETWEEN 200 AND 299 AND name IS NOT NULL AND coalesce(subresource, '') = ''
),
denied_creates AS (
    SELECT creates.* FROM creates JOIN (SELECT DISTINCT cluster, audit_id, ts FROM rows WHERE flip = 'newly-denied') AS denied
        ON denied.cluster = creates.cluster AND denied.audit_id = created_by AND denied.ts = created_ts
),
following AS (
    SELECT places.cluster, places.audit_id, places.ts, created_by
    FROM places ASOF JOIN creates
        ON places.cluster = creates.cluster AND places.api_group IS NOT DISTINCT FROM creates.api_group
        AND places.resource = creates.resource AND places.namespace IS NOT DISTINCT FROM creates.namespace
        AND places.name = creates.name AND places.ts > created_ts
    WHERE (places.cluster, created_by, created_ts) IN (SELECT cluster, created_by, created_ts FROM denied_creates)
)
SELECT
    rows.* REPLACE (coalesce(sources.file || '#', '') || rule_ref AS rule_ref),
    json_extract_string(detail, '$.object') AS object,
    coalesce(
        list_transform(
            from_json(detail -> '$.warnings', '[{"field": "VARCHAR", "message": "VARCHAR"}]'),
            lambda told: concat(told.field, ': ', told.message)
        ),
        []
    ) AS warnings,
    created_by AS cascade_of
FROM rows
    LEFT JOIN following USING (cluster, audit_id, ts)
    LEFT JOIN sources ON sources.ref = array_to_string(split(rule_ref, '/')[:2], '/')
ORDER BY
    ts, audit_id, cluster, pass, stage, policy NULLS FIRST, binding NULLS FIRST, param_namespace NULLS FIRST, param_name NULLS FIRST,
    expression_index NULLS FIRST
