-- one row per (cluster, slot) with calls of webhooks: all calls, and the most in one second, in slots of $width seconds
WITH per_second AS (
    SELECT cluster, date_trunc('second', ts) AS second, sum(calls)::BIGINT AS calls FROM webhooks_calls GROUP BY ALL
)
SELECT
    cluster, to_timestamp(floor(epoch(second) / $width) * $width) AS slot, sum(calls)::BIGINT AS calls, max(calls) AS most
FROM per_second GROUP BY ALL ORDER BY ALL
