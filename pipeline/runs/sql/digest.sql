-- one row: the events that the lake holds until a moment, whatever files they lie in, so that a run can be named after them; retention
-- takes bodies out of events and flags them
SELECT count(*) AS events, coalesce(bit_xor(hash(cluster, audit_id, stage, stage_ts, code, flags)), 0)::VARCHAR AS digest
FROM events
WHERE ts < $until
