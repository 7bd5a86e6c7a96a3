-- rows of `losses`: records that could not be taken as events
CREATE MACRO losses_of_quarantine() AS TABLE
SELECT
    coalesce(cluster, '') AS cluster, 'quarantined' AS kind, count(*) AS count, min(received_ts) AS first_ts,
    max(received_ts) AS last_ts, source AS detail
FROM quarantined
GROUP BY ALL
