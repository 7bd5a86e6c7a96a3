-- one row per (request, policy, binding) of a replay of the policies in force: the recorded outcome, and whether the replay agrees
-- result: agreed, disagreed, unknown (the replay does not say), silent (the log cannot have recorded it)
-- about: what the result rests on
-- recorded: deny, failure, none or unknown (the log cannot have recorded it); replayed: the same of the replay
--
-- A cluster reports one denial per request. Up to 1.36 it also records one failure per request: if it recorded one, the lack of
-- another says nothing. A binding without Deny and Audit leaves no trace. The authorizer leaves an annotation on every request.
-- A request without it lost its annotations, and so its failures leave no trace.
CREATE OR REPLACE TEMP TABLE compared AS
WITH predicted AS (
    SELECT
        cluster, audit_id, ts, policy, binding,
        bool_or(decision = 'unknown') AS is_unknown,
        bool_or(evidence = 'recorded') AS is_told,
        max(actions) AS actions,
        bool_or(is_failure) AS fails,
        bool_or(is_failure AND (list_contains(actions, 'Deny') OR bypasses_actions)) AS rejects,
        bool_or(is_failure AND NOT bypasses_actions) AS is_audited,
        bool_or(bypasses_actions) AS bypasses,
        list(message) FILTER (is_failure) AS messages
    FROM (
        SELECT
            *,
            effect = 'deny' AND (expression_index IS NOT NULL OR message IS NOT NULL) AS is_failure
        FROM read_parquet($verdicts)
        WHERE decision <> 'nomatch'
    )
    GROUP BY cluster, audit_id, ts, policy, binding
),
-- A request with several passes has several verdicts of one policy. The record does not name the pass, so any verdict may agree.
recorded AS (
    SELECT
        writes.cluster, writes.audit_id, writes.ts,
        writes.ran, writes.outcome,
        -- Whether a failure that is not recorded did not happen, for a binding with Audit.
        map_contains(writes.annotations, 'authorization.k8s.io/decision') AND (len(writes.vap_failures) = 0 OR $records_all) AS tells,
        writes.vap_failures,
        denials.policy AS denied_by_policy, denials.binding AS denied_by_binding, denials.message AS denied_message
    FROM admission_writes AS writes LEFT JOIN policy_denials AS denials
        ON denials.cluster = writes.cluster AND denials.audit_id = writes.audit_id AND denials.ts = writes.ts
    -- If policies ran and their answer is unknown, there is no recorded outcome to compare.
    WHERE writes.policies IN ('admitted', 'denied')
),
joined AS (
    SELECT
        predicted.*, recorded.* EXCLUDE (cluster, audit_id, ts, vap_failures),
        list_filter(vap_failures, lambda failure: failure.policy = predicted.policy AND failure.binding = predicted.binding) AS own,
        denied_by_policy IS NOT NULL AND denied_by_policy = policy AND denied_by_binding IS NOT DISTINCT FROM binding AS is_denier
    FROM predicted JOIN recorded USING (cluster, audit_id, ts)
),
judged AS (
    SELECT
        *,
        CASE
            WHEN is_unknown THEN 'unknown: the replay does not say'
            WHEN is_told THEN 'unknown: the replay knows it from the record alone'
            WHEN is_denier AND NOT rejects THEN 'disagreed: it denied and is replayed as not denying'
            WHEN is_denier AND NOT list_contains(messages, denied_message) THEN 'agreed: it denied, in other words'
            WHEN is_denier THEN 'agreed: it denied'
            WHEN outcome <> 'vap' AND rejects THEN 'disagreed: the request was admitted and is replayed as denied'
            WHEN len(own) > 0 AND NOT fails THEN 'disagreed: a failure is recorded and not replayed'
            WHEN len(own) > 0 AND NOT list_contains(messages, own[1].message) THEN 'agreed: the failure is recorded, in other words'
            WHEN len(own) > 0 THEN 'agreed: the failure is recorded'
            WHEN list_contains(actions, 'Audit') AND is_audited AND tells
                THEN 'disagreed: a failure is replayed and not recorded'
            WHEN list_contains(actions, 'Audit') AND NOT fails AND tells THEN 'agreed: no failure is recorded'
            WHEN list_contains(actions, 'Deny') AND NOT rejects AND outcome <> 'vap' THEN 'agreed: it did not deny'
            ELSE 'silent: nothing of it would be recorded'
        END AS verdict,
        CASE
            WHEN is_denier THEN 'deny'
            WHEN len(own) > 0 THEN 'failure'
            WHEN outcome = 'vap' AND bypasses THEN 'unknown'
            WHEN list_contains(actions, 'Audit') AND tells THEN 'none'
            WHEN list_contains(actions, 'Deny') AND outcome <> 'vap' THEN 'none'
            ELSE 'unknown'
        END AS recorded,
        CASE
            WHEN is_unknown OR is_told THEN 'unknown'
            WHEN rejects THEN 'deny'
            WHEN fails THEN 'failure'
            ELSE 'none'
        END AS replayed
    FROM joined
)
SELECT
    cluster, audit_id, ts, policy, binding,
    split_part(verdict, ': ', 1) AS result,
    substr(verdict, strpos(verdict, ': ') + 2) AS about,
    recorded, replayed,
    messages AS replayed_messages,
    CASE WHEN is_denier THEN [denied_message] ELSE list_transform(own, lambda failure: failure.message) END AS recorded_messages
FROM judged
