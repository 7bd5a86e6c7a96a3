-- warn: a name of a cluster has events of two clusters, and their histories are mixed
SELECT cluster, 'namespace ' || namespace || ' has the uids ' || string_agg(uid, ', ' ORDER BY first_ts) AS found
FROM cluster_uids
GROUP BY cluster, namespace
HAVING count(*) > 1
UNION ALL
SELECT
    cluster, resource || ' ' || CASE namespace WHEN '' THEN '' ELSE namespace || '/' END || name || ' had the uids ' || uid || ' and ' || other_uid
    || ' at one time'
FROM overlapping_lives
ORDER BY ALL
