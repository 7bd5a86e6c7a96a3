-- one row per event of the table `asked` whose bodies decide, with all columns of `events`
SELECT events.* FROM events SEMI JOIN (
    SELECT DISTINCT cluster, audit_id, ts, own FROM asked WHERE own IS NOT NULL
) AS wanted ON events.cluster = wanted.cluster AND events.audit_id = wanted.audit_id AND events.ts = wanted.ts
    AND events.audit_id || ' ' || epoch_us(events.stage_ts) = wanted.own
