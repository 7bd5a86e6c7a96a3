-- one row per object whose earlier state is asked for, of the requests in `general`
CREATE OR REPLACE TEMP TABLE asked AS
SELECT DISTINCT resource, coalesce(namespace, '') AS place, name
FROM general
WHERE asks
