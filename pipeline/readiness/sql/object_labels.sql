-- one row per (policy, label) of the objects that an objectSelector did not select, with the requests that had it
WITH left_out AS (
    SELECT DISTINCT policy, cluster, audit_id, ts
    FROM verdicts
    WHERE decision = 'nomatch' AND regexp_matches(why, '^(matchResources: )?objectSelector: ')
),
labelled AS (
    SELECT
        policy,
        recorded_object(response_object, request_object)::JSON AS object,
        unnest(json_keys(recorded_object(response_object, request_object)::JSON, '$.metadata.labels')) AS key
    FROM left_out JOIN folded_requests USING (cluster, audit_id, ts)
)
SELECT policy, key || '=' || coalesce(json_extract_string(object, '$.metadata.labels."' || key || '"'), '') AS label, count(*) AS requests
FROM labelled
WHERE NOT contains(key, '"')
GROUP BY ALL
ORDER BY policy, requests DESC, label
