-- warn: a stage was reached before its request was received; clocks of several API servers may differ
SELECT cluster, audit_id, stage, ts, stage_ts
FROM events
WHERE stage_ts < ts
