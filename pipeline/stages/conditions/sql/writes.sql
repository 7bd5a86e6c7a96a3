-- one row per (policy, decision, code, reason): requests of a run other than lists and watches
-- reason: of the deciding condition, or why the decision is unknown
WITH decided AS (
    SELECT
        cluster, audit_id, ts, policy, decision, verdicts.code AS code,
        coalesce(verdicts.why, json_extract_string(detail, '$.reason'), '') AS reason
    FROM read_parquet($verdicts) AS verdicts JOIN requests USING (cluster, audit_id, ts)
    WHERE verb NOT IN ('list', 'watch')
)
SELECT
    policy, decision, code, reason,
    count(DISTINCT (cluster, audit_id, ts)) AS requests,
    arg_max(audit_id, (ts, audit_id)) AS example
FROM decided
GROUP BY policy, decision, code, reason
ORDER BY policy, list_position(['deny', 'unknown', 'admit'], decision), requests DESC, code, reason
