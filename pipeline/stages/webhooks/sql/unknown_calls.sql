-- one row per (cluster, webhook) of a run with passes whose call is unknown, or whose second round is
SELECT
    cluster, policy AS configuration, binding AS webhook, count(*) FILTER (decision = 'unknown') AS unknown,
    count(*) FILTER (detail ->> '$.second_round' IS NOT NULL) AS again
FROM read_parquet($verdicts)
GROUP BY ALL
HAVING unknown + again > 0
