-- rows of `losses`: batches that the webhook dropped whole
CREATE MACRO losses_of_batches() AS TABLE
SELECT
    cluster, 'lost_batch' AS kind, count(*) AS count, min(first_ts) AS first_ts, max(last_ts) AS last_ts,
    format('up to {:d} events in a row', max(events)) AS detail
FROM lost_batches
GROUP BY cluster
