-- one row per (policy, binding): admission passes that it was asked about, by what became of them
-- denied wins over unknown, unknown over an ignored error, that over admitted
WITH passes AS (
    SELECT
        policy, binding, cluster, audit_id, ts, pass,
        bool_and(decision = 'nomatch') AS is_unmatched,
        bool_or(coalesce(effect = 'deny', false)) AS is_denied,
        bool_or(decision = 'unknown') AS is_unknown,
        bool_or(decision = 'error') AS is_error
    FROM read_parquet($verdicts)
    GROUP BY policy, binding, cluster, audit_id, ts, pass
)
SELECT
    policy, binding,
    count(*) FILTER (NOT is_unmatched) AS matched,
    count(*) FILTER (NOT (is_unmatched OR is_denied OR is_unknown OR is_error)) AS admit,
    count(*) FILTER (is_denied) AS deny,
    count(*) FILTER (is_error AND NOT (is_denied OR is_unknown)) AS error,
    count(*) FILTER (is_unknown AND NOT is_denied) AS unknown,
    count(*) FILTER (is_unmatched) AS nomatch
FROM passes
GROUP BY policy, binding
ORDER BY policy, binding
