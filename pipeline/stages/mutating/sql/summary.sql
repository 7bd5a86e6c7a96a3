-- one row per (policy, binding) of a run: the requests that it is for, by what it makes of them
-- ignored: an error that failurePolicy Ignore drops; denied: an error that refuses the request
-- unsettled: the policy changes its own result again; ordered: the undefined order of policies decides
-- lost: a later write that leaves out a field that the policy adds removes that field again
SELECT
    policy, binding,
    count(*) FILTER (decision = 'changed') AS changed,
    count(*) FILTER (decision = 'unchanged') AS unchanged,
    count(*) FILTER (decision = 'error' AND effect = 'admit') AS ignored,
    count(*) FILTER (decision = 'error' AND effect = 'deny') AS denied,
    count(*) FILTER (decision = 'unknown') AS unknown,
    count(*) FILTER (decision = 'nomatch') AS nomatch,
    count(*) FILTER (list_contains(flags, 'not-idempotent')) AS unsettled,
    count(*) FILTER (list_contains(flags, 'order-dependent')) AS ordered,
    count(*) FILTER (list_contains(flags, 'lost-on-reapply')) AS lost
FROM (SELECT *, from_json(detail, '{"flags": ["VARCHAR"]}').flags AS flags FROM read_parquet($verdicts))
WHERE policy <> 'mutating'
GROUP BY policy, binding
ORDER BY policy, binding NULLS FIRST
