-- one row per ValidatingAdmissionPolicy that the lake has seen by name: (cluster, policy)
-- policy: name of the policy
-- listed: a snapshot holds the policy
-- written: the log holds a write of the policy itself
-- failed: the log holds a failure annotation that names it
-- denied: the log holds a denial that names it
WITH seen AS (
    SELECT cluster, name AS policy, 'listed' AS how
    FROM objects
    WHERE kind = 'ValidatingAdmissionPolicy' AND starts_with(api_version, 'admissionregistration.k8s.io/')
    UNION ALL
    SELECT cluster, name, 'written'
    FROM events
    WHERE api_group = 'admissionregistration.k8s.io' AND resource = 'validatingadmissionpolicies' AND name IS NOT NULL
        AND verb IN ('create', 'update', 'patch', 'delete')
    UNION ALL
    SELECT cluster, unnest(vap_failures).policy, 'failed' FROM events WHERE len(vap_failures) > 0
    UNION ALL
    SELECT cluster, policy, 'denied' FROM policy_denials
)
SELECT
    cluster, policy,
    count(*) FILTER (how = 'listed') > 0 AS listed,
    count(*) FILTER (how = 'written') > 0 AS written,
    count(*) FILTER (how = 'failed') > 0 AS failed,
    count(*) FILTER (how = 'denied') > 0 AS denied
FROM seen
GROUP BY cluster, policy
