-- one row per request that validating admission saw, or would have seen: (cluster, audit_id, ts)
-- operation: CREATE, UPDATE, DELETE or CONNECT; a refused update or patch counts as UPDATE, though the object may not have existed
-- ran: whether policies were evaluated: `yes`, `no`, or `unknown` where the answer alone cannot tell
-- ran_reason: why
-- policies: their decision: `admitted`, `denied`, or `asked` where it is unknown; `not reached` or `unknown` where they did not run
-- dry_run: whether the request asked for no effect
-- outcome: see `requests`
-- user_name: effective user: the impersonated one where the request impersonated
--
-- The rules behind `reach` say how far a request came.
SELECT
    * EXCLUDE (complete, stages, way, rule, passed, stopped, why, policies, policies_why, passed_number, stopped_number, operation, outcome, dry_run),
    operation, outcome,
    CASE policies WHEN 'not reached' THEN 'no' WHEN 'unknown' THEN 'unknown' ELSE 'yes' END AS ran,
    policies_why AS ran_reason,
    policies,
    dry_run
FROM reach
-- `operation` is null for these ways only. A filter on it would repeat its CASE in every branch of `reach`.
WHERE way NOT IN ('read', 'url')
