-- one row per (what the webhook did, what policies say, which answers are missing, reason): most frequent first
-- policy_says: of given policies; of a changed object, of given policies and those of that time, without the changes
-- is_open: the request would go on to webhooks, or after mutating admission to other stages, whose answers are not recorded
--   of a changed object: other webhooks looked at the object with the changes
-- asked_mutating: one of them is a mutating webhook; was_refused: the record shows a refusal; denied_before: by a policy
-- why: only where something is unknown, or a policy denies
-- calls: the recorded calls of both rounds; again: passes with a second round after a change by this webhook
FROM (
    SELECT
        said, coalesce(CASE WHEN said = 'changed' THEN says ELSE policy_says END, '') AS policy_says,
        CASE
            WHEN said = 'changed' THEN coalesce(asked, false) OR asked_validating
            ELSE said IN ('denied', 'failed closed', 'refused without a call') AND (others > 0 OR phase = 'mutating')
        END AS is_open,
        CASE
            WHEN said = 'unknown' THEN without.why
            WHEN said = 'no answer' THEN coalesce(unanswered, '')
            WHEN said = 'changed' THEN coalesce(instead.why, '')
            ELSE ''
        END AS why,
        said = 'changed' AND coalesce(asked, false) AS asked_mutating,
        said = 'changed' AND was_refused AS was_refused,
        said = 'changed' AND coalesce(denied_before, false) AS denied_before,
        count(*) AS requests, sum(calls)::BIGINT AS calls, count(*) FILTER (started_again) AS again,
        mode(operation || ' ' || resource) AS mostly, arg_max(audit_id, (ts, audit_id)) AS example
    FROM webhooks_without AS without LEFT JOIN webhooks_instead AS instead USING (cluster, audit_id, ts, pass)
    GROUP BY ALL
)
ORDER BY
    list_position(
        ['denied', 'failed closed', 'refused without a call', 'changed', 'admitted', 'refused elsewhere', 'failed open',
            'no answer', 'unknown', 'not reached', 'not called'],
        said
    ), requests DESC, policy_says, is_open, why, asked_mutating, was_refused, denied_before
