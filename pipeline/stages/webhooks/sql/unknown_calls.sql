-- one row per (cluster, webhook) of a run with passes whose call is unknown, or whose repetition is
SELECT
    cluster, policy AS configuration, binding AS webhook, count(*) FILTER (decision = 'unknown') AS unknown,
    count(*) FILTER (coalesce(detail ->> '$.second_round', detail ->> '$.second_pass') IS NOT NULL) AS again
FROM read_parquet($verdicts)
GROUP BY ALL
HAVING unknown + again > 0
