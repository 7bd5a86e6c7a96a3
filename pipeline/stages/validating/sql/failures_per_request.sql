-- one row: how many failures the server recorded for each of the compared requests
-- several: requests with more than one recorded failure
-- missing: requests with one recorded failure, for which the replay finds another
WITH asked AS (
    SELECT cluster, audit_id, ts, bool_or(about = 'a failure is replayed and not recorded') AS lacks
    FROM compared
    GROUP BY ALL
)
SELECT
    count(*) FILTER (len(vap_failures) > 1) AS several,
    count(*) FILTER (len(vap_failures) = 1 AND lacks) AS missing
FROM asked JOIN admission_writes USING (cluster, audit_id, ts)
