-- one row per (cell, operation, resource): writes by what conditions and policies make of them; see matrix.py for the cells
-- $conditions, $policies: the verdict tables of two runs over the same requests
-- example: the auditID of the latest of these requests, with what both say of it
WITH conditional AS (
    SELECT cluster, audit_id, ts, pass, decision, code, coalesce(why, message, '') AS said
    FROM read_parquet($conditions)
),
judged AS (
    SELECT
        cluster, audit_id, ts, pass,
        CASE
            WHEN bool_or(coalesce(effect = 'deny', false)) THEN 'deny'
            WHEN bool_or(decision = 'unknown') THEN 'unknown'
            WHEN bool_or(decision <> 'nomatch') THEN 'admit'
            ELSE 'nomatch'
        END AS decision,
        coalesce(min(message) FILTER (effect = 'deny'), '') AS said
    FROM read_parquet($policies)
    GROUP BY ALL
),
both_judged AS (
    SELECT
        conditional.cluster, conditional.audit_id, conditional.ts, conditional.code,
        conditional.decision AS one, coalesce(judged.decision, 'nomatch') AS other,
        conditional.said AS conditions_said, coalesce(judged.said, '') AS policies_said
    FROM conditional LEFT JOIN judged USING (cluster, audit_id, ts, pass)
),
placed AS (
    SELECT
        *,
        CASE
            WHEN one = 'unknown' AND other = 'unknown' THEN 'both unknown'
            WHEN one = 'unknown' THEN 'conditions unknown'
            WHEN other = 'unknown' THEN 'policies unknown'
            WHEN one = 'deny' AND other = 'deny' THEN CASE WHEN code = 500 THEN 'both refuse, conditions by an error' ELSE 'both refuse' END
            WHEN one = 'deny' THEN CASE WHEN code = 500 THEN 'only conditions refuse, by an error' ELSE 'only conditions refuse' END
            WHEN other = 'deny' THEN 'only policies refuse'
            ELSE 'both allow'
        END AS cell
    FROM both_judged
),
written AS (
    SELECT
        placed.*, reach.operation,
        coalesce(resource, '') || CASE WHEN api_group <> '' THEN '.' || api_group ELSE '' END
            || CASE WHEN subresource <> '' THEN '/' || subresource ELSE '' END AS resource
    FROM placed JOIN (
        SELECT cluster, audit_id, ts, operation, resource, api_group, subresource FROM reach
        WHERE operation IN ('CREATE', 'UPDATE', 'DELETE')
    ) AS reach USING (cluster, audit_id, ts)
)
SELECT
    cell, operation, resource,
    count(DISTINCT (cluster, audit_id, ts)) AS requests,
    arg_max(conditions_said, (ts, audit_id)) AS conditions_said,
    arg_max(policies_said, (ts, audit_id)) AS policies_said,
    arg_max(audit_id, (ts, audit_id)) AS example
FROM written
GROUP BY cell, operation, resource
ORDER BY cell, requests DESC, operation, resource
