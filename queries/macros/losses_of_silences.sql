-- rows of `losses`: stretches of time without events
CREATE MACRO losses_of_silences() AS TABLE
SELECT
    cluster, 'silence' AS kind, count(*) AS count, min(first_ts) AS first_ts, max(last_ts) AS last_ts,
    format('the longest lasted {:.0f} s; usual are up to {:.1f} s', max(seconds), max(usual_seconds)) AS detail
FROM silences
GROUP BY cluster
