-- one row per (cell, operation, resource, message): a witness of a cell of the matrix, the most frequent first
-- message: of the policy where it denies, else of the webhook where it denies, else why an answer is unknown
-- example: the auditID of the earliest such request
WITH placed AS (
    SELECT
        *,
        CASE
            WHEN webhook_says = 'unknown' AND policy_says = 'nomatch' THEN 'webhook unknown, policy does not match'
            WHEN webhook_says = 'unknown' THEN 'webhook unknown'
            WHEN webhook_says = 'not called' AND policy_says = 'deny' THEN 'only the policy matches, and denies'
            WHEN webhook_says = 'not called' AND policy_says = 'nomatch' THEN ''
            WHEN webhook_says = 'not called' THEN 'only the policy matches'
            WHEN policy_says = 'error' AND webhook_says = 'deny' THEN 'webhook denies, policy error'
            WHEN policy_says = 'error' THEN 'webhook allows, policy error'
            WHEN policy_says = 'unknown' THEN 'policy unknown'
            WHEN webhook_says = 'deny' AND policy_says = 'deny' THEN 'both deny'
            WHEN webhook_says = 'deny' THEN 'policy looser'
            WHEN policy_says = 'deny' THEN 'policy stricter'
            WHEN policy_says = 'nomatch' THEN 'only the webhook matches'
            ELSE 'both allow'
        END AS cell
    FROM webhooks_migration
)
SELECT
    cell, operation, resource,
    CASE
        WHEN cell IN ('policy stricter', 'only the policy matches, and denies', 'both deny') THEN regexp_replace(policy_message, '[0-9]+', 'N', 'g')
        WHEN cell = 'policy looser' THEN regexp_replace(webhook_message, '[0-9]+', 'N', 'g')
        WHEN cell LIKE '%policy error' OR cell = 'policy unknown' THEN policy_why
        WHEN cell LIKE 'webhook unknown%' THEN webhook_why
        ELSE ''
    END AS message,
    count(*) AS requests, count(*) FILTER (policy_message = webhook_message) AS same_message,
    count(DISTINCT (cluster, user_name, namespace)) AS units, arg_min(audit_id, (ts, audit_id)) AS example
FROM placed
WHERE cell <> ''
GROUP BY ALL
ORDER BY cell, requests DESC, operation, resource, message
