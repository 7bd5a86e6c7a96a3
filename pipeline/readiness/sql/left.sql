-- one row per policy of a run: the requests that it would deny, and those that could not be judged
WITH judged AS (
    SELECT
        policy, cluster, audit_id, ts,
        coalesce(bool_or(effect = 'deny'), false) AS is_denied,
        bool_or(decision = 'unknown') AS is_unknown
    FROM read_parquet($verdicts) ANTI JOIN dry_runs USING (cluster, audit_id, ts)
    WHERE decision <> 'nomatch'
    GROUP BY ALL
)
SELECT policy, count(*) FILTER (is_denied) AS denied, count(*) FILTER (is_unknown AND NOT is_denied) AS unknown
FROM judged
GROUP BY ALL
ORDER BY ALL
