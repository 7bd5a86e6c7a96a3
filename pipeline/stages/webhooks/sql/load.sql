-- one row per (cluster, webhook) in `webhooks_calls`
-- seconds: a MAP from the calls in one second of the clock to how many seconds had so many; seconds without calls are not in it
-- burst_1s, burst_10s: the most calls in any span of that length
WITH per_second AS (
    SELECT cluster, configuration, webhook, date_trunc('second', ts) AS second, sum(calls)::BIGINT AS calls
    FROM webhooks_calls GROUP BY ALL
),
histogram AS (
    SELECT cluster, configuration, webhook, map_from_entries(list({k: calls, v: seconds} ORDER BY calls)) AS seconds
    FROM (SELECT cluster, configuration, webhook, calls, count(*) AS seconds FROM per_second GROUP BY ALL)
    GROUP BY cluster, configuration, webhook
),
spans AS (
    SELECT
        cluster, configuration, webhook,
        sum(calls) OVER (own ORDER BY ts RANGE BETWEEN CURRENT ROW AND INTERVAL 999999 MICROSECOND FOLLOWING) AS in_1s,
        sum(calls) OVER (own ORDER BY ts RANGE BETWEEN CURRENT ROW AND INTERVAL 9999999 MICROSECOND FOLLOWING) AS in_10s
    FROM webhooks_calls
    WINDOW own AS (PARTITION BY cluster, configuration, webhook)
),
bursts AS (
    SELECT cluster, configuration, webhook, max(in_1s)::BIGINT AS burst_1s, max(in_10s)::BIGINT AS burst_10s
    FROM spans GROUP BY ALL
),
totals AS (
    SELECT
        cluster, configuration, webhook, any_value(phase) AS phase, sum(calls)::BIGINT AS calls,
        sum(object_bytes * calls)::BIGINT AS bytes, count(*) FILTER (object_bytes IS NULL) AS unsized
    FROM webhooks_calls GROUP BY cluster, configuration, webhook
)
SELECT cluster, configuration, webhook, phase, calls, seconds, burst_1s, burst_10s, coalesce(bytes, 0) AS bytes, unsized
FROM totals JOIN histogram USING (cluster, configuration, webhook) JOIN bursts USING (cluster, configuration, webhook)
ORDER BY cluster, phase, configuration, webhook
