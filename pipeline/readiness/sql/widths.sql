-- one row per `taker` in `taken_by`: what it takes out; see exemptions.Width
WITH by_workload AS (
    SELECT taker, workload, bool_or(outcome = 'deny') AS denies, bool_or(outcome = 'admit') AS admits
    FROM taken_by
    GROUP BY ALL
),
units AS (
    SELECT taker, count(*) AS units, count(*) FILTER (denies) AS denied_units, count(*) FILTER (admits AND NOT denies) AS passing_units
    FROM by_workload
    GROUP BY ALL
)
SELECT
    taker,
    coalesce(sum(requests) FILTER (outcome = 'deny'), 0)::BIGINT AS denied_requests,
    any_value(denied_units) AS denied_units,
    coalesce(sum(requests) FILTER (outcome = 'admit'), 0)::BIGINT AS passing_requests,
    any_value(passing_units) AS passing_units,
    coalesce(sum(requests) FILTER (outcome = 'unknown'), 0)::BIGINT AS unknown_requests,
    any_value(units) AS units
FROM taken_by JOIN units USING (taker)
GROUP BY taker
