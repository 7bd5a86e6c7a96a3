-- one row per list of a snapshot: (cluster, observed_ts, api_version, kind, source)
-- source: file of the list
-- observed_ts: when the list was taken
-- objects: how many objects were in it; 0 means that the cluster had no object of this kind
SELECT cluster, observed_ts, api_version, kind, source, count(*) FILTER (name <> '') AS objects
FROM lake_objects
WHERE source <> ''
GROUP BY ALL
