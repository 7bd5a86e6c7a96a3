-- one row per (policy, binding): the figures of a report from the run's verdicts and the lake's views alone, written again
WITH asked AS (
    SELECT
        policy, binding, cluster, audit_id, ts,
        count(*) FILTER (effect = 'deny') > 0 AS is_denied,
        count(*) FILTER (decision = 'unknown') > 0 AND count(*) FILTER (effect = 'deny') = 0 AS is_unknown,
        count(*) FILTER (decision = 'error') > 0 AS is_error
    FROM read_parquet($verdicts)
    -- A dry run changes nothing, so its verdict is no figure of a report.
    WHERE decision IN ('admit', 'deny', 'error', 'unknown')
        AND (cluster, audit_id, ts) NOT IN (SELECT (cluster, audit_id, ts) FROM requests WHERE request_uri LIKE '%dryRun=All%')
    GROUP BY policy, binding, cluster, audit_id, ts
),
sent AS (
    SELECT cluster, audit_id, ts, any_value(user_name) AS sender, any_value(coalesce(namespace, '')) AS place
    FROM requests
    GROUP BY cluster, audit_id, ts
)
SELECT
    policy,
    binding,
    count(*) AS "requests matched",
    count(*) - count(*) FILTER (is_unknown) AS "requests judged",
    count(*) FILTER (is_denied) AS "requests that would be denied",
    count(*) FILTER (is_unknown) AS "requests unknown",
    count(*) FILTER (is_error AND NOT is_denied AND NOT is_unknown) AS "requests that only an error let pass",
    count(DISTINCT sender) AS "users",
    count(DISTINCT place) AS "namespaces",
    (epoch_us(max(ts)) - epoch_us(min(ts))) / 86400e6 AS "days of traffic",
    count(DISTINCT dayname(ts)) FILTER (NOT is_unknown) AS "weekdays",
    max(CASE WHEN is_denied THEN ts END) AS "last would-be denial",
    (epoch_us(max(ts)) - epoch_us(coalesce(max(CASE WHEN is_denied THEN ts END), min(ts)))) / 86400e6 AS "days without one since"
FROM asked LEFT JOIN sent USING (cluster, audit_id, ts)
GROUP BY policy, binding
