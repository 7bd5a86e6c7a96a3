-- the verdicts of a run but for requests that the policy denied before already: what a change of policies adds
--
-- A request that the policy's old version could not judge, and that is denied now, is unknown here: nobody can say that it is new.
WITH old AS (
    SELECT
        policy, cluster, audit_id, ts,
        coalesce(bool_or(effect = 'deny'), false) AS is_denied,
        bool_or(decision = 'unknown') AS is_unknown
    FROM read_parquet($old)
    WHERE decision <> 'nomatch'
    GROUP BY ALL
)
SELECT new.* REPLACE (
    CASE WHEN new.effect = 'deny' AND coalesce(old.is_unknown, false) THEN 'unknown' ELSE new.decision END AS decision,
    CASE WHEN new.effect = 'deny' AND coalesce(old.is_unknown, false) THEN NULL ELSE new.effect END AS effect,
    CASE WHEN new.effect = 'deny' AND coalesce(old.is_unknown, false)
        THEN 'the old version of the policy could not be judged, so that the denial may not be new'
        ELSE new.why
    END AS why
)
FROM read_parquet($new) AS new
LEFT JOIN old
    ON old.policy = new.policy AND old.cluster = new.cluster AND old.audit_id = new.audit_id AND old.ts = new.ts
WHERE NOT coalesce(old.is_denied, false)
