-- one row per (configuration, webhook, slot) with calls, over all clusters, in slots of $width seconds
SELECT
    configuration, webhook, to_timestamp(floor(epoch(ts) / $width) * $width) AS slot, sum(calls)::BIGINT AS calls
FROM webhooks_calls GROUP BY ALL ORDER BY ALL
