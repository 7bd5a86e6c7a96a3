-- one row per reason of unknown verdicts, the most frequent first
-- why: without the names of single objects and requests
-- otherwise: what the verdicts would be if nothing was dropped, as counts
SELECT
    regexp_replace(
        regexp_replace(why, 'no earlier version of (\S+) \S+', 'no earlier version of the object of \1'),
        '(changed by \w+) \S+ of \S+', '\1'
    ) AS why,
    count(*) AS requests,
    count(*) FILTER (detail ->> '$.if_nothing_was_dropped' IN ('admit', 'change')) AS admitted_otherwise,
    count(*) FILTER (detail ->> '$.if_nothing_was_dropped' = 'deny') AS refused_otherwise,
    arg_max(audit_id, (ts, audit_id)) AS example
FROM read_parquet($verdicts)
WHERE decision = 'unknown'
GROUP BY ALL
ORDER BY requests DESC, why
