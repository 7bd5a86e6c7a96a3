-- one row per (api_group, api_version, resource) with a refused deletecollection in the window, if its writes are few: $writes at most
WITH refused AS (
    SELECT DISTINCT coalesce(api_group, '') AS api_group, api_version, resource
    FROM events
    WHERE verb = 'deletecollection' AND stage = 'ResponseComplete' AND code BETWEEN 400 AND 599
        AND annotations['authorization.k8s.io/decision'] = 'allow'
        AND ($since IS NULL OR ts >= $since) AND ($until IS NULL OR ts < $until)
)
SELECT refused.api_group, refused.api_version, refused.resource
FROM refused JOIN events ON coalesce(events.api_group, '') = refused.api_group AND events.resource = refused.resource
WHERE verb IN ('create', 'update', 'patch', 'delete', 'deletecollection')
GROUP BY ALL
HAVING count(*) <= $writes
