-- one row per (request, policy, key): the value of an audit annotation as recorded and as replayed
--
-- The server joins the values of several bindings and params with `, ` in an undefined order.
WITH passes AS (
    SELECT
        cluster, audit_id, ts, pass, policy, entry.key AS key,
        list_sort(split(string_agg(DISTINCT entry.value, ', '), ', ')) AS parts
    FROM (SELECT cluster, audit_id, ts, pass, policy, unnest(map_entries(audit_annotations)) AS entry FROM read_parquet($verdicts))
    GROUP BY ALL
),
-- For a request with several passes the record keeps the values of the first pass, for any of its objects.
predicted AS (
    SELECT cluster, audit_id, ts, policy, key, list(parts) AS by_pass
    FROM passes
    GROUP BY ALL
),
undecided AS (
    SELECT DISTINCT cluster, audit_id, ts, policy
    FROM read_parquet($verdicts)
    WHERE decision = 'unknown' OR evidence = 'recorded' OR contains(coalesce(why, ''), 'auditAnnotation ')
),
evaluated AS (
    SELECT DISTINCT cluster, audit_id, ts FROM read_parquet($verdicts)
),
-- The authorizer leaves an annotation on every request: where it is not there, none were kept.
kept AS (
    SELECT DISTINCT cluster, audit_id, ts FROM folded_requests SEMI JOIN evaluated USING (cluster, audit_id, ts)
    WHERE map_contains(annotations, 'authorization.k8s.io/decision')
),
recorded AS (
    SELECT cluster, audit_id, ts, policy, key, list_sort(split(value, ', ')) AS parts
    FROM audit_annotations SEMI JOIN evaluated USING (cluster, audit_id, ts)
    WHERE declared_by = 'policy'
)
SELECT
    coalesce(recorded.policy, predicted.policy) AS policy,
    count(*) FILTER (undecided.policy IS NULL) AS compared,
    count(*) FILTER (undecided.policy IS NULL AND list_contains(predicted.by_pass, recorded.parts)) AS agreed
FROM recorded FULL JOIN predicted USING (cluster, audit_id, ts, policy, key)
    LEFT JOIN undecided USING (cluster, audit_id, ts, policy)
    SEMI JOIN kept USING (cluster, audit_id, ts)
GROUP BY ALL
ORDER BY ALL
