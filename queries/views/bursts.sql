-- one row per ten seconds in which the webhook brought nearly as much as one API server can send: (cluster, first_ts)
-- first_ts: start of the ten seconds
-- last_ts: the last batch in them
-- batches: received batches
-- full: batches with 400 events or more
-- events: events in all batches
--
-- By default an API server sends 10 batches of 400 events a second, after 15 at once (--audit-webhook-batch-throttle-qps, -burst
-- and -max-size), and keeps 10,000 waiting. It silently drops further events. The rule: 80 full batches in ten seconds. The ceiling
-- grows with the number of API servers, and differs with other settings.
SELECT
    cluster,
    time_bucket(INTERVAL 10 SECONDS, received_ts) AS first_ts,
    max(received_ts) AS last_ts,
    count(*) AS batches,
    count(*) FILTER (events >= 400) AS full,
    sum(events)::BIGINT AS events
FROM deliveries
GROUP BY cluster, time_bucket(INTERVAL 10 SECONDS, received_ts)
HAVING count(*) FILTER (events >= 400) >= 80
