-- rows of `losses`: requests that one backend recorded and the other did not
CREATE MACRO losses_of_sources() AS TABLE
WITH found AS (
    SELECT DISTINCT ON (cluster, audit_id, ts, missing_from)
        cluster, CASE missing_from WHEN 'webhook' THEN 'never_posted' ELSE 'never_logged' END AS kind, coalesce(ts, stage_ts) AS ts,
        resource_label(api_group, resource, subresource) AS detail
    FROM unshared_events
)
SELECT cluster, kind, count(*) AS count, min(ts) AS first_ts, max(ts) AS last_ts, detail
FROM found
GROUP BY cluster, kind, detail
