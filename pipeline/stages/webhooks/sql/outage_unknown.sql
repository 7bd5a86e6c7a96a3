-- one row per webhook of a run: how many requests in a span of time may have called it
SELECT policy AS configuration, binding AS webhook, count(DISTINCT (cluster, audit_id, ts)) AS requests
FROM read_parquet($verdicts)
WHERE decision = 'unknown' AND ts >= $down_from AND ts < $down_to
GROUP BY ALL
