-- one row: what the lake holds
SELECT
    (SELECT count(*) FROM events) AS events,
    (SELECT count(*) FROM requests) AS requests,
    (SELECT min(ts) FROM events) AS first_ts,
    (SELECT max(ts) FROM events) AS last_ts,
    (SELECT coalesce(list_sort(list(DISTINCT cluster)), []) FROM events) AS clusters
