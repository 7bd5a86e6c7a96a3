-- one row per (policy, binding) with requests whose evaluation a CEL cost limit of the API server ended
-- A match condition that ran out of budget under failurePolicy Ignore is a row that did not match, and says so in `why`.
SELECT policy, binding, count(DISTINCT (cluster, audit_id, ts)) AS requests_over_cost
FROM verdicts
WHERE decision IN ('error', 'nomatch')
    AND regexp_matches(
        concat_ws(' ', message, why), 'actual cost limit exceeded|validation failed due to running out of cost budget'
    )
GROUP BY policy, binding
