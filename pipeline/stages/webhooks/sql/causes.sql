-- one row per (cluster, webhook, dimension, value): the calls that one resource, user or namespace caused, the most first
-- dimension: resource, user or namespace; value: empty for a cluster-scoped request
WITH told AS (
    SELECT cluster, configuration, webhook, 'resource' AS dimension, resource AS value, calls FROM webhooks_calls
    UNION ALL
    SELECT cluster, configuration, webhook, 'user', user_name, calls FROM webhooks_calls
    UNION ALL
    SELECT cluster, configuration, webhook, 'namespace', namespace, calls FROM webhooks_calls
),
counted AS (
    SELECT
        cluster, configuration, webhook, dimension, value, sum(calls)::BIGINT AS calls,
        row_number() OVER (
            PARTITION BY cluster, configuration, webhook, dimension ORDER BY sum(calls) DESC, value
        ) AS place
    FROM told GROUP BY cluster, configuration, webhook, dimension, value
)
SELECT cluster, configuration, webhook, dimension, value, calls
FROM counted WHERE place <= $most
ORDER BY cluster, configuration, webhook, dimension, calls DESC, value
