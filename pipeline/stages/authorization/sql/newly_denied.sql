-- takes from the table `asked` every request that a run does not newly deny
CREATE OR REPLACE TEMP TABLE asked AS
SELECT asked.* FROM asked SEMI JOIN (
    SELECT cluster, audit_id, ts FROM read_parquet($verdicts) WHERE flip = 'newly-denied'
) AS denied ON asked.cluster = denied.cluster AND asked.audit_id = denied.audit_id AND asked.ts = denied.ts
