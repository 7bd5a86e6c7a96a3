-- one row per (what the webhook did, what given policies say, whether answers are missing, reason): most frequent first
-- is_open: the request would go on to webhooks, or after mutating admission to other stages, whose answers are not recorded
-- why: only where something is unknown
-- calls: the recorded calls of both rounds; again: passes with a second round after a change by this webhook
FROM (
    SELECT
        said, coalesce(policy_says, '') AS policy_says,
        said IN ('denied', 'failed closed', 'refused without a call') AND (others > 0 OR phase = 'mutating') AS is_open,
        CASE WHEN said = 'unknown' THEN why WHEN said = 'no answer' THEN coalesce(unanswered, '') ELSE '' END AS why,
        count(*) AS requests, sum(calls)::BIGINT AS calls, count(*) FILTER (started_again) AS again,
        mode(operation || ' ' || resource) AS mostly, arg_max(audit_id, (ts, audit_id)) AS example
    FROM webhooks_without
    GROUP BY ALL
)
ORDER BY
    list_position(
        ['denied', 'failed closed', 'refused without a call', 'changed', 'admitted', 'refused elsewhere', 'failed open',
            'no answer', 'unknown', 'not reached', 'not called'],
        said
    ), requests DESC, policy_says, is_open, why
