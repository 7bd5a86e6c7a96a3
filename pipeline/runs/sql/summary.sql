-- one row per (policy, binding): admission passes that it was asked about, by what became of them
-- denied wins over unknown, unknown over an ignored error, that over admitted
WITH told AS (
    SELECT
        policy, binding, set,
        bool_and(decision = 'nomatch') AS is_unmatched,
        bool_or(coalesce(effect = 'deny', false)) AS is_denied,
        bool_or(decision = 'unknown') AS is_unknown,
        bool_or(decision = 'error') AS is_error
    FROM members JOIN distinct_verdicts USING (verdict)
    GROUP BY policy, binding, set
)
SELECT
    policy, binding,
    coalesce(sum(passes) FILTER (NOT is_unmatched), 0)::BIGINT AS matched,
    coalesce(sum(passes) FILTER (NOT (is_unmatched OR is_denied OR is_unknown OR is_error)), 0)::BIGINT AS admit,
    coalesce(sum(passes) FILTER (is_denied), 0)::BIGINT AS deny,
    coalesce(sum(passes) FILTER (is_error AND NOT (is_denied OR is_unknown)), 0)::BIGINT AS error,
    coalesce(sum(passes) FILTER (is_unknown AND NOT is_denied), 0)::BIGINT AS unknown,
    coalesce(sum(passes) FILTER (is_unmatched), 0)::BIGINT AS nomatch
FROM told JOIN passes USING (set)
GROUP BY policy, binding
ORDER BY policy, binding
