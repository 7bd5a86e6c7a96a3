-- one row: what the lake holds, whatever files it lies in, so that a run can be named after it
SELECT count(*) AS events, coalesce(bit_xor(hash(cluster, audit_id, stage, stage_ts)), 0)::VARCHAR AS digest
FROM events
WHERE $until IS NULL OR ts < $until
