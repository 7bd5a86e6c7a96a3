-- one row per (policy, binding, request) whose evaluation a CEL cost limit of the API server ended
--
-- A match condition that ran out of budget under failurePolicy Ignore is a row that did not match, and says so in `why`.
CREATE OR REPLACE TEMP TABLE over_cost_requests AS
SELECT DISTINCT policy, binding, cluster, audit_id, ts
FROM verdicts
WHERE decision IN ('error', 'nomatch')
    AND regexp_matches(
        concat_ws(' ', message, why), 'actual cost limit exceeded|validation failed due to running out of cost budget'
    )
