-- rows of `losses`: what the times of the webhook's batches show
CREATE MACRO losses_of_deliveries() AS TABLE
SELECT
    cluster, 'burst' AS kind, count(*) AS count, min(first_ts) AS first_ts, max(last_ts) AS last_ts,
    format('up to {:d} events in ten seconds', max(events)) AS detail
FROM bursts
GROUP BY cluster
UNION ALL
SELECT cluster, 'late', count(*), min(received_ts), max(received_ts), format('up to {:.0f} s old', max(age_seconds))
FROM deliveries
WHERE age_seconds > 40
GROUP BY cluster
