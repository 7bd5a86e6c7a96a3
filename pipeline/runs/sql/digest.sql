-- one row: what the lake holds, whatever files it lies in, so that a run can be named after it
SELECT events, digest, objects
FROM (
    SELECT count(*) AS events, coalesce(bit_xor(hash(cluster, audit_id, stage, stage_ts)), 0)::VARCHAR AS digest
    FROM events
    WHERE $until IS NULL OR ts < $until
), (
    -- What a snapshot lists speaks for the time before it, too.
    SELECT coalesce(bit_xor(hash(cluster, observed_ts, api_version, kind, namespace, name, object)), 0)::VARCHAR AS objects
    FROM lake_objects
    WHERE $until IS NULL OR observed_ts < $until
)
