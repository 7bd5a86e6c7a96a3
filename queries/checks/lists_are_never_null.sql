-- fail: an event has a null list or map, so that engines would have to tell null from empty
SELECT cluster, audit_id, stage, stage_ts
FROM events
WHERE user_groups IS NULL OR source_ips IS NULL OR annotations IS NULL OR vap_failures IS NULL OR flags IS NULL
