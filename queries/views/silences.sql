-- one row per stretch of time in which a cluster recorded nothing although it usually records: (cluster, first_ts)
-- first_ts: the last event before
-- last_ts: the first event after
-- seconds: length
-- usual_seconds: one in a thousand pauses between two events is longer than this
--
-- The rule: longer than a minute, and longer than ten times `usual_seconds`, in a cluster with a thousand events or more. A control
-- plane is never silent by itself, because its parts renew their leases every few seconds. It seems silent if the audit policy
-- drops these and no user works. With several API servers, one of them may be silent without leaving a row here.
WITH steps AS (
    SELECT cluster, lag(stage_ts) OVER (PARTITION BY cluster ORDER BY stage_ts) AS first_ts, stage_ts AS last_ts
    FROM events
),
timed AS (
    SELECT *, epoch(last_ts) - epoch(first_ts) AS seconds FROM steps WHERE first_ts IS NOT NULL
),
usual AS (
    SELECT cluster, quantile_cont(seconds, 0.999) AS usual_seconds
    FROM timed
    GROUP BY cluster
    HAVING count(*) >= 999
)
SELECT cluster, first_ts, last_ts, seconds, usual_seconds
FROM timed JOIN usual USING (cluster)
WHERE seconds > greatest(60, 10 * usual_seconds)
