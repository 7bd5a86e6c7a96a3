-- one row per (flip, slot) of a run's requests but for dry runs, in slots of $width seconds
-- flip: of all verdicts on a request, the first one in $order; requests without `flip` have no rows
WITH per_request AS (
    SELECT cluster, audit_id, ts, min(list_position($order, flip)) AS place
    FROM read_parquet($verdicts) ANTI JOIN dry_runs USING (cluster, audit_id, ts)
    WHERE flip IS NOT NULL
    GROUP BY ALL
)
SELECT $order[place] AS flip, to_timestamp(floor(epoch(ts) / $width) * $width) AS slot, count(*) AS requests
FROM per_request
GROUP BY ALL
ORDER BY ALL
