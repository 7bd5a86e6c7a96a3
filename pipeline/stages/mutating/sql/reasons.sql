-- one row per (policy, outcome, why): why a policy denies, has its errors ignored, or is unknown, the most frequent first
-- policy: null for a request as a whole, where not even its object is known, or a later stage refuses the changed object
-- outcome: denied, error ignored, unknown, refused later, or not tried
-- why: of a later refusal without the name of the object
FROM (
    SELECT
        policy, outcome, why, count(DISTINCT (cluster, audit_id, ts)) AS requests, arg_max(audit_id, (ts, audit_id)) AS example
    FROM (
        SELECT
            cluster, audit_id, ts, policy, coalesce(message, why, '') AS why,
            CASE WHEN decision = 'unknown' THEN 'unknown' WHEN effect = 'deny' THEN 'denied' ELSE 'error ignored' END AS outcome
        FROM read_parquet($verdicts)
        WHERE decision IN ('error', 'unknown') AND policy <> 'mutating'
        UNION ALL
        SELECT cluster, audit_id, ts, NULL, 
            regexp_replace(unnest(from_json(detail, '{"later": ["VARCHAR"]}').later), '^(\S+) "[^"]*" is ', '\1 is '), 'refused later'
        FROM read_parquet($verdicts)
        WHERE policy = 'mutating'
        UNION ALL
        SELECT cluster, audit_id, ts, NULL, 'some of the possible orders of the policies', 'not tried'
        FROM read_parquet($verdicts)
        WHERE policy = 'mutating' AND list_contains(from_json(detail, '{"flags": ["VARCHAR"]}').flags, 'orders-not-tried')
        UNION ALL
        SELECT cluster, audit_id, ts, NULL, why, 'unknown'
        FROM read_parquet($verdicts)
        WHERE policy = 'mutating' AND decision = 'unknown' AND (cluster, audit_id, ts, pass) NOT IN (
            SELECT (cluster, audit_id, ts, pass) FROM read_parquet($verdicts) WHERE policy <> 'mutating'
        )
    )
    GROUP BY ALL
)
ORDER BY list_position(['denied', 'refused later', 'error ignored', 'unknown', 'not tried'], outcome), requests DESC, policy, why
