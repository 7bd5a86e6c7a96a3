-- one row per set of requests in a span of time with the same calls of webhooks, cause, outcome and slot:
-- called: a LIST of {configuration, webhook, phase, calls}; a deletecollection calls once per object
-- slot: the span of $width seconds that they fall in
-- is_refused: the record shows a refusal, so that an outage changes only which one it is
WITH per_webhook AS (
    SELECT
        cluster, audit_id, ts, resource, user_name, namespace, code, configuration, webhook, phase, sum(calls)::INTEGER AS calls
    FROM webhooks_calls
    WHERE ts >= $down_from AND ts < $down_to
    GROUP BY ALL
),
per_request AS (
    SELECT
        cluster, audit_id, ts, resource, user_name, namespace, code,
        list_sort(list({configuration: configuration, webhook: webhook, phase: phase, calls: calls})) AS called
    FROM per_webhook
    GROUP BY ALL
)
SELECT
    called, cluster, to_timestamp(floor(epoch(ts) / $width) * $width) AS slot, resource, user_name, namespace,
    code >= 400 AS is_refused, count(*) AS requests, min(audit_id) AS example
FROM per_request
GROUP BY ALL
ORDER BY ALL
