-- one row per pass of a request that the rules of one webhook match: what the log says of it, and what stands next to it
-- said: what the webhook did (denied, failed closed, failed open, changed, admitted, no answer), or why it did nothing
--   refused elsewhere: it was called, and another part of the server refused the request
-- policy_says: of given policies: deny, error, unknown, admit or nomatch; null where none are given
-- asked_validating: other validating webhooks that looked at the object, or may have
-- others: other webhooks of the request that were called or not reached, and whose answers the log does not have
-- started_again: a webhook was called in a second round, and this one changed the object in the first
CREATE OR REPLACE TEMP TABLE webhooks_without AS
WITH hook AS (
    SELECT
        cluster, audit_id, ts, pass, policy AS configuration, decision, effect, recorded, coalesce(why, message, '') AS why,
        detail ->> '$.phase' AS phase, coalesce((detail ->> '$.calls')::INTEGER, 0) AS calls, detail ->> '$.unanswered' AS unanswered
    FROM read_parquet($verdicts)
    WHERE binding = $webhook AND ($configuration IS NULL OR policy = $configuration)
),
others AS (
    SELECT
        cluster, audit_id, ts, pass,
        count(*) FILTER (decision IN ('unreached', 'unknown') OR (decision = 'called' AND recorded IS NULL)) AS others,
        count(*) FILTER (decision IN ('unreached', 'unknown', 'called') AND detail ->> '$.phase' = 'validating') AS asked_validating
    FROM read_parquet($verdicts)
    WHERE NOT (binding = $webhook AND ($configuration IS NULL OR policy = $configuration))
    GROUP BY ALL
),
notes AS (
    SELECT cluster, audit_id, ts, unnest(map_entries(annotations), recursive := true) FROM requests
    WHERE (cluster, audit_id, ts) IN (SELECT (cluster, audit_id, ts) FROM hook)
),
attempts AS (
    SELECT
        cluster, audit_id, ts,
        value ->> '$.webhook' = $webhook AND ($configuration IS NULL OR value ->> '$.configuration' = $configuration) AS is_own, value ->> '$.mutated' = 'true' AS is_mutated,
        starts_with(key, 'mutation.webhook.admission.k8s.io/round_1') AS is_second
    FROM notes
    WHERE starts_with(key, 'mutation.webhook.admission.k8s.io/') AND json_valid(value)
),
changed AS (
    SELECT
        cluster, audit_id, ts,
        bool_or(is_own AND is_mutated) AS is_changed,
        bool_or(is_own AND is_mutated AND NOT is_second) AND bool_or(is_second) AS started_again
    FROM attempts
    GROUP BY ALL
)
SELECT
    hook.*, coalesce(others.others, 0) AS others, coalesce(others.asked_validating, 0) > 0 AS asked_validating,
    reach.code >= 400 AS was_refused,
    CASE WHEN phase = 'mutating' THEN coalesce(started_again, false) ELSE false END AS started_again,
    CASE
        WHEN recorded = 'denied' THEN 'denied'
        WHEN recorded = 'failed closed' THEN 'failed closed'
        WHEN recorded = 'failed open' THEN 'failed open'
        WHEN decision = 'error' AND effect = 'deny' THEN 'refused without a call'
        WHEN decision IN ('nomatch', 'error') THEN 'not called'
        WHEN decision = 'unreached' THEN 'not reached'
        WHEN decision = 'unknown' THEN 'unknown'
        WHEN phase = 'mutating' AND coalesce(is_changed, false) THEN 'changed'
        WHEN recorded IS NOT NULL THEN 'admitted'
        WHEN phase = 'validating' AND reach.code >= 400 AND outcome <> 'timeout' THEN 'refused elsewhere'
        ELSE 'no answer'
    END AS said,
    CASE WHEN $has_policies THEN coalesce(answers.says, 'nomatch') END AS policy_says,
    reach.operation, reach.resource || CASE WHEN coalesce(reach.api_group, '') <> '' THEN '.' || reach.api_group ELSE '' END
        || CASE WHEN coalesce(reach.subresource, '') <> '' THEN '/' || reach.subresource ELSE '' END AS resource
FROM hook
    LEFT JOIN others USING (cluster, audit_id, ts, pass)
    LEFT JOIN changed USING (cluster, audit_id, ts)
    LEFT JOIN webhooks_policy_answers AS answers USING (cluster, audit_id, ts, pass)
    JOIN reach USING (cluster, audit_id, ts)
WHERE reach.stage = 'ResponseComplete'
