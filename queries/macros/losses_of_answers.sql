-- rows of `losses`: requests whose answer is overdue
CREATE MACRO losses_of_answers() AS TABLE
WITH ends AS (
    SELECT cluster, max(stage_ts) AS end_ts FROM events GROUP BY cluster
),
-- An API server answers within a minute, or ends the request itself.
found AS (
    SELECT
        requests.cluster, CASE stage WHEN 'RequestReceived' THEN 'unanswered' ELSE 'unended' END AS kind, ts,
        resource_label(api_group, resource, subresource) AS detail
    FROM requests JOIN ends USING (cluster)
    WHERE NOT complete AND outcome <> 'authentication'
        AND stage_ts < end_ts - CASE WHEN is_long_running(verb, subresource) THEN INTERVAL 1 HOUR ELSE INTERVAL 2 MINUTES END
        AND NOT (stage = 'RequestReceived' AND is_long_running(verb, subresource))
)
SELECT cluster, kind, count(*) AS count, min(ts) AS first_ts, max(ts) AS last_ts, detail
FROM found
GROUP BY cluster, kind, detail
