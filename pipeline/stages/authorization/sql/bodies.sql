-- one row per event of the table `asked` whose bodies decide, with all columns of `events`, and the name `own` of that table
SELECT events.*, wanted.own FROM events JOIN (
    SELECT DISTINCT cluster, audit_id, ts, own FROM asked WHERE own <> ''
) AS wanted ON events.cluster = wanted.cluster AND events.audit_id = wanted.audit_id AND events.ts = wanted.ts
    AND concat_ws(' ', events.cluster, events.audit_id, epoch_us(events.stage_ts)) = wanted.own
