-- `exposed_groups`: one row per (policy, binding, outcome, subject, half of the time), with the number of its requests
CREATE OR REPLACE TEMP TABLE exposed_groups AS
SELECT
    exposed.rowid::INTEGER AS id,
    policy, binding, outcome, is_configuration, is_behind, is_later, requests, subject, workload
FROM exposed
JOIN (SELECT subject, workload, unnest(rows) AS number FROM exposed_subjects) AS numbered ON numbered.number = exposed.rowid
