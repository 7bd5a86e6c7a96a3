-- one row per (cluster, api_group, resource) with a recorded deletion
SELECT DISTINCT cluster, coalesce(api_group, ''), resource
FROM events
WHERE verb IN ('delete', 'deletecollection') AND code < 300 AND ($until IS NULL OR ts < $until)
