-- one row per object name that had two uids at one time within a cluster: (cluster, api_group, resource, namespace, name)
-- uid: of the one object
-- other_uid: of the other, which was first seen before the one was seen for the last time
-- first_ts: when the other was first seen
-- last_ts: when the one was last seen
--
-- A new object of a name gets a new uid, and an old uid never comes back. So two uids in turns are objects of two clusters. Only
-- updates that succeeded count: an API server refuses an update with a wrong uid, and replaces the uid of a create. Clocks of API
-- servers may differ by a minute.
WITH lives AS (
    SELECT
        cluster, api_group, resource, coalesce(namespace, '') AS namespace, name, obj_uid AS uid, min(stage_ts) AS first_ts, max(stage_ts) AS last_ts
    FROM events
    WHERE obj_uid IS NOT NULL AND obj_uid <> '' AND name IS NOT NULL AND verb = 'update' AND stage = 'ResponseComplete' AND code BETWEEN 200 AND 299
    GROUP BY ALL
),
ordered AS (
    SELECT
        *, lead(uid) OVER later AS other_uid, lead(first_ts) OVER later AS other_first_ts
    FROM lives
    WINDOW later AS (PARTITION BY cluster, api_group, resource, namespace, name ORDER BY first_ts)
)
SELECT cluster, api_group, resource, namespace, name, uid, other_uid, other_first_ts AS first_ts, last_ts
FROM ordered
WHERE other_uid IS NOT NULL AND last_ts > other_first_ts + INTERVAL 1 MINUTE
