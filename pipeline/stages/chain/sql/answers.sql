-- one row per (answer against the record, who decides, code, why it is not known) of a run, the most frequent first
-- answer: newly-denied, newly-allowed, still-denied, changed, same or unknown
-- decider: the step that refuses, or where the answer is not known; with the name of the policy
-- message: the answer to the latest of these requests, where it is a refusal; example: its auditID
WITH told AS (
    SELECT
        flip AS answer, coalesce(detail ->> '$.decided_by', '') AS decider, code, audit_id, ts,
        CASE WHEN decision = 'unknown' THEN coalesce(why, '') ELSE '' END AS why,
        CASE WHEN decision = 'deny' THEN message ELSE '' END AS message
    FROM read_parquet($verdicts)
),
counted AS (
    SELECT
        answer, decider, code, why, count(*) AS requests, arg_max(audit_id, (ts, audit_id)) AS example,
        coalesce(arg_max(message, (ts, audit_id)), '') AS message
    FROM told
    GROUP BY answer, decider, code, why
)
FROM counted
ORDER BY
    list_position(['newly-denied', 'newly-allowed', 'unknown', 'changed', 'still-denied', 'same'], answer), requests DESC, decider,
    code, why
