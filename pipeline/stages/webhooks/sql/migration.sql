-- one row per pass of a request that a webhook was called for or a policy matched, with both answers
-- webhook_says: allow, deny, unknown, or `not called`; policy_says: admit, deny, error, unknown or nomatch
-- Only requests from the first to the last that the rules of the webhook match: before and after, it may not have existed.
-- Of several webhooks that deny a request, the answer names one; what the others said is unknown.
CREATE OR REPLACE TEMP TABLE webhooks_migration AS
WITH hook AS (
    SELECT cluster, audit_id, ts, pass, decision, recorded, coalesce(why, '') AS why, detail ->> '$.phase' AS phase
    FROM read_parquet($webhook_verdicts)
    WHERE binding = $webhook AND ($configuration IS NULL OR policy = $configuration)
),
answers AS (
    SELECT
        cluster, audit_id, ts, pass,
        CASE
            WHEN bool_or(decision = 'deny') THEN 'deny' WHEN bool_or(decision = 'error') THEN 'error'
            WHEN bool_or(decision = 'unknown') THEN 'unknown' WHEN bool_or(decision = 'admit') THEN 'admit' ELSE 'nomatch'
        END AS says,
        min(message) FILTER (decision = 'deny') AS message,
        coalesce(min(why) FILTER (decision IN ('unknown', 'nomatch')), min(message) FILTER (decision = 'error'), '') AS why
    FROM read_parquet($policy_verdicts)
    GROUP BY ALL
),
both_sides AS (
    SELECT
        cluster, audit_id, ts, coalesce(hook.pass, answers.pass) AS pass, hook.decision, hook.recorded, hook.phase,
        coalesce(hook.why, '') AS hook_why, coalesce(answers.says, 'nomatch') AS policy_says,
        coalesce(answers.message, '') AS policy_message, coalesce(answers.why, 'its rules do not match') AS policy_why
    FROM hook FULL JOIN answers USING (cluster, audit_id, ts, pass)
)
SELECT
    both_sides.cluster, both_sides.audit_id, both_sides.ts, both_sides.pass, policy_says, policy_message, policy_why,
    CASE
        WHEN decision IS NULL OR decision IN ('nomatch', 'error') THEN 'not called'
        WHEN decision <> 'called' OR recorded LIKE 'failed%' THEN 'unknown'
        WHEN recorded = 'denied' THEN 'deny'
        WHEN stage_answer(way, passed_number, stopped_number, CASE WHEN phase = 'mutating' THEN 'mutating' ELSE 'webhooks' END)
            = 'admitted' THEN 'allow'
        ELSE 'unknown'
    END AS webhook_says,
    CASE
        WHEN decision = 'unreached' THEN 'the request ended before the webhook: ' || hook_why
        WHEN decision = 'unknown' THEN hook_why
        WHEN recorded LIKE 'failed%' THEN 'the call failed'
        WHEN decision = 'called' AND starts_with(outcome, 'webhook') THEN 'another webhook refused the request'
        WHEN decision = 'called' THEN 'another part of the server refused the request: ' || why
        ELSE ''
    END AS webhook_why,
    regexp_replace(coalesce(status_message, ''), '^admission webhook "[^"]*" denied the request(: | without explanation)?', '')
        AS webhook_message,
    verb, operation, resource || CASE WHEN coalesce(api_group, '') <> '' THEN '.' || api_group ELSE '' END
        || CASE WHEN coalesce(subresource, '') <> '' THEN '/' || subresource ELSE '' END AS resource,
    coalesce(namespace, '') AS namespace, coalesce(name, '') AS name, coalesce(user_name, '') AS user_name
FROM both_sides JOIN reach USING (cluster, audit_id, ts)
WHERE reach.stage = 'ResponseComplete' AND ts BETWEEN (SELECT min(ts) FROM hook) AND (SELECT max(ts) FROM hook)
