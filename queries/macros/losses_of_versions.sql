-- rows of `losses`: updates that replaced a version which nothing recorded made
CREATE MACRO losses_of_versions() AS TABLE
WITH found AS (
    SELECT cluster, 'unseen_write' AS kind, ts, resource_label(api_group, resource, subresource) AS detail
    FROM unseen_writes
)
SELECT cluster, kind, count(*) AS count, min(ts) AS first_ts, max(ts) AS last_ts, detail
FROM found
GROUP BY cluster, kind, detail
