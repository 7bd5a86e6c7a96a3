-- one row per (phase, configuration, webhook) that left a trace: what it did, from annotations and refusals alone
-- configuration: null for validating webhooks, whose traces do not name it
-- requests: with any trace; attempts: calls that were tried, in both rounds; second: those of the second round
-- mutated: attempts that changed the object; patches, operations: applied patches, and the operations in them
-- denied, failed_closed: requests that it refused, or that ended because it could not be called
-- failed_open: calls that failed, and that failurePolicy Ignore let pass; annotated: requests with annotations of its own
--
-- If a refusal names a mutating webhook, the same request has its attempt. A validating webhook leaves no attempt.
WITH chosen AS (
    SELECT cluster, audit_id, ts, annotations, code, status_message
    FROM requests
    WHERE ($since IS NULL OR ts >= $since) AND ($until IS NULL OR ts < $until)
        AND (len(map_keys(annotations)) > 0 OR code >= 400)
),
notes AS (
    SELECT cluster, audit_id, ts, unnest(map_entries(annotations), recursive := true) FROM chosen
),
attempts AS (
    SELECT
        cluster, audit_id, ts, 'mutating' AS phase, value ->> '$.configuration' AS configuration, value ->> '$.webhook' AS webhook,
        starts_with(key, 'mutation.webhook.admission.k8s.io/round_1') AS is_second, value ->> '$.mutated' = 'true' AS is_mutated
    FROM notes
    WHERE starts_with(key, 'mutation.webhook.admission.k8s.io/') AND json_valid(value)
),
patches AS (
    SELECT
        cluster, audit_id, ts, 'mutating' AS phase, value ->> '$.configuration' AS configuration, value ->> '$.webhook' AS webhook,
        coalesce(json_array_length(value, '$.patch'), 0) AS operations
    FROM notes
    WHERE starts_with(key, 'patch.webhook.admission.k8s.io/') AND json_valid(value)
),
failed_open AS (
    SELECT
        cluster, audit_id, ts,
        CASE WHEN starts_with(key, 'failed-open.mutation.') THEN 'mutating' ELSE 'validating' END AS phase,
        value AS webhook
    FROM notes
    WHERE starts_with(key, 'failed-open.mutation.webhook.') OR starts_with(key, 'failed-open.validating.webhook.')
),
refused AS (
    SELECT
        cluster, audit_id, ts,
        regexp_extract(status_message, '^(Internal error occurred: failed calling|admission) webhook "([^"]*)"', 2) AS webhook,
        starts_with(status_message, 'admission webhook') AS is_denial
    FROM chosen
    WHERE code >= 400 AND regexp_matches(
        status_message, '^(Internal error occurred: failed calling webhook "|admission webhook "[^"]*" denied the request)'
    )
),
-- A trace that names only a mutating webhook gets its configuration from an attempt of the same request.
placed AS (
    SELECT DISTINCT cluster, audit_id, ts, webhook, configuration FROM attempts
),
told AS (
    SELECT
        cluster, audit_id, ts, phase, configuration, webhook, 1 AS attempt, is_second::INTEGER AS second, is_mutated::INTEGER AS mutated,
        0 AS patch, 0 AS operations, 0 AS denied, 0 AS failed_closed, 0 AS failed_open, 0 AS annotated
    FROM attempts
    UNION ALL
    SELECT cluster, audit_id, ts, phase, configuration, webhook, 0, 0, 0, 1, operations, 0, 0, 0, 0 FROM patches
    UNION ALL
    SELECT
        cluster, audit_id, ts, phase, configuration, webhook, (phase = 'validating')::INTEGER, 0, 0, 0, 0, 0, 0, 1, 0
    FROM failed_open LEFT JOIN placed USING (cluster, audit_id, ts, webhook)
    UNION ALL
    SELECT
        cluster, audit_id, ts, CASE WHEN configuration IS NULL THEN 'validating' ELSE 'mutating' END, configuration, webhook,
        (configuration IS NULL)::INTEGER, 0, 0, 0, 0, is_denial::INTEGER, (NOT is_denial)::INTEGER, 0, 0
    FROM refused LEFT JOIN placed USING (cluster, audit_id, ts, webhook)
),
-- A webhook's own annotations begin with its name. Which prefixes are names is known from the other traces.
named AS (
    SELECT webhook, any_value(phase) AS phase, any_value(configuration) AS configuration FROM told GROUP BY webhook
),
annotated AS (
    SELECT DISTINCT cluster, audit_id, ts, named.phase, named.configuration, named.webhook
    FROM notes JOIN named ON split_part(key, '/', 1) = named.webhook
),
everything AS (
    FROM told
    UNION ALL
    SELECT cluster, audit_id, ts, phase, configuration, webhook, 0, 0, 0, 0, 0, 0, 0, 0, 1 FROM annotated
)
SELECT
    phase, configuration, webhook,
    count(DISTINCT (cluster, audit_id, ts)) AS requests,
    sum(attempt)::BIGINT AS attempts, sum(second)::BIGINT AS second, sum(mutated)::BIGINT AS mutated,
    sum(patch)::BIGINT AS patches, sum(operations)::BIGINT AS operations,
    sum(denied)::BIGINT AS denied, sum(failed_closed)::BIGINT AS failed_closed, sum(failed_open)::BIGINT AS failed_open,
    sum(annotated)::BIGINT AS annotated,
    min(ts) AS first_ts, max(ts) AS last_ts
FROM everything
GROUP BY phase, configuration, webhook
ORDER BY phase, configuration, webhook
