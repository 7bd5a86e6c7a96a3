-- one row per (configuration, webhook) of a run: the admission passes that its rules are for, by what becomes of them
-- called: passes with a call; calls: with the second round; again: passes whose second round is unknown
-- nomatch: a selector or match condition says no; unreached: refused before; rejected: refused by the server without a call
-- skipped: not called under failurePolicy Ignore, or for want of sideEffects
-- traced: calls of which the log shows a trace of the same webhook
SELECT
    policy AS configuration, binding AS webhook,
    any_value(detail ->> '$.phase') AS phase,
    count(*) FILTER (decision = 'called') AS called,
    coalesce(sum((detail ->> '$.calls')::INTEGER), 0)::BIGINT AS calls,
    count(*) FILTER (detail ->> '$.second_round' IS NOT NULL) AS again,
    count(*) FILTER (decision = 'nomatch') AS nomatch,
    count(*) FILTER (decision = 'unreached') AS unreached,
    count(*) FILTER (decision = 'error' AND effect = 'deny') AS rejected,
    count(*) FILTER (decision = 'error' AND effect <> 'deny') AS skipped,
    count(*) FILTER (decision = 'unknown') AS unknown,
    count(*) FILTER (decision = 'called' AND recorded IS NOT NULL) AS traced
FROM read_parquet($verdicts)
GROUP BY policy, binding
ORDER BY phase, configuration, min(rule_ref), webhook
