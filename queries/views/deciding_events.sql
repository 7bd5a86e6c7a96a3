-- one row per audit request: (cluster, audit_id, ts), the event of the stage that decided it, with the columns of `events`
-- complete: false where no final stage was recorded: still open, or lost
-- stages: how many stages of the request were recorded
--
-- Where every event is of the final stage, catalog.py puts a view without joins in place of this one.
-- The two final stages exclude each other (kubernetes/apiserver pkg/endpoints/filters/audit.go), so the final rows need no folding.
-- Only requests with earlier stages are grouped, and most audit policies omit most of those. NOT MATERIALIZED pushes the filters and
-- columns of a query down to the files. A subquery joins the groups: with a LEFT JOIN, DuckDB may hash the larger side, which is every
-- event with its bodies. There is no UNION, because DuckDB would prepare all that a query does with a request once for each side.
WITH staged AS NOT MATERIALIZED (
    -- latest: a number for the latest of the earlier stages; of two at the same moment, ResponseStarted is the later one
    SELECT
        cluster, audit_id, ts,
        bool_or(stage IN ('ResponseComplete', 'Panic')) AS complete,
        count(*) FILTER (stage NOT IN ('ResponseComplete', 'Panic')) AS stages,
        max(CASE WHEN stage NOT IN ('ResponseComplete', 'Panic') THEN epoch_us(stage_ts) * 2 + (stage = 'ResponseStarted')::BIGINT END) AS latest
    FROM events SEMI JOIN (SELECT DISTINCT ts FROM events WHERE stage NOT IN ('ResponseComplete', 'Panic')) USING (ts)
    GROUP BY cluster, audit_id, ts
),
joined AS NOT MATERIALIZED (
    SELECT
        events.*,
        (
            SELECT {'complete': complete, 'stages': stages, 'latest': latest}
            FROM staged
            WHERE staged.cluster = events.cluster AND staged.audit_id = events.audit_id AND staged.ts = events.ts
        ) AS before
    FROM events
)
SELECT
    * EXCLUDE (before),
    stage IN ('ResponseComplete', 'Panic') AS complete,
    coalesce(before.stages, 0) + (stage IN ('ResponseComplete', 'Panic'))::BIGINT AS stages
FROM joined
WHERE stage IN ('ResponseComplete', 'Panic')
    OR (NOT before.complete AND before.latest = epoch_us(stage_ts) * 2 + (stage = 'ResponseStarted')::BIGINT)
