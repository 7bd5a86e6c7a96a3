-- one row per (configuration, webhook) of a run: the admission passes that its rules match, by what happens to them
-- called: passes with a call; calls: those of both rounds; again: passes whose second round is unknown
-- nomatch: a selector or match condition says no; unreached: refused before; rejected: refused by the server without a call
-- skipped: not called under failurePolicy Ignore, or because sideEffects forbid it
-- traced: calls for which the log has a trace of the same webhook
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
    count(*) FILTER (decision = 'called' AND recorded <> 'admitted') AS traced
FROM read_parquet($verdicts)
GROUP BY policy, binding
ORDER BY phase, configuration, min(rule_ref), webhook
