-- one row: what the lake holds
SELECT
    count(*) AS events,
    (SELECT count(*) FROM folded_requests) AS requests,
    min(ts) AS first_ts,
    max(ts) AS last_ts,
    coalesce(list_sort(list(DISTINCT cluster)), []) AS clusters
FROM events
