-- one row per (policy, finding, user, verb, resource, selection): lists and watches of a run, and the proofs about them
-- finding: see Finding; `unconditional` where no condition was asked
-- counterexample: JSON of an object that the selection takes and the chain refuses; known: the most such objects that existed at once
-- suggestion: JSON of the selectors that the client may ask for instead
-- example: the auditID of the latest of these requests
WITH read AS (
    SELECT
        cluster, audit_id, ts, policy, user_name, verb, verdicts.why,
        coalesce(resource, '') || CASE WHEN api_group <> '' THEN '.' || api_group ELSE '' END AS resource,
        coalesce(json_extract_string(detail, '$.proof'), 'unconditional') AS finding,
        coalesce(json_extract_string(detail, '$.selection'), '') AS selection,
        json_extract_string(detail, '$.known')::BIGINT AS known,
        json_extract(detail, '$.counterexample')::VARCHAR AS counterexample,
        json_extract(detail, '$.suggestions')::VARCHAR AS suggestions
    FROM read_parquet($verdicts) AS verdicts JOIN requests USING (cluster, audit_id, ts)
    WHERE verb IN ('list', 'watch') AND resource IS NOT NULL
)
SELECT
    policy, finding, user_name, verb, resource, selection,
    count(DISTINCT (cluster, audit_id, ts)) AS requests,
    max(known) AS known,
    arg_max(counterexample, (ts, audit_id)) AS counterexample,
    arg_max(suggestions, (ts, audit_id)) AS suggestions,
    arg_max(why, (ts, audit_id)) AS why,
    arg_max(audit_id, (ts, audit_id)) AS example
FROM read
GROUP BY policy, finding, user_name, verb, resource, selection
ORDER BY
    policy,
    list_position(
        ['refuted with a known object', 'refuted with a hypothetical object', 'unknown', 'unconditional', 'proved'], finding
    ),
    requests DESC, user_name, verb, resource, selection
