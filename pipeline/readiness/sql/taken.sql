-- `taken`: one row per (candidate, group of requests that it takes out)
CREATE OR REPLACE TEMP TABLE taken AS
SELECT c.policy, c.candidate, g.id, g.outcome, g.workload, g.requests, g.is_later, g.subject
FROM candidates AS c
JOIN subject_keys AS k USING (exclusion)
JOIN exposed_groups AS g ON g.subject = k.subject AND g.policy = c.policy AND (c.binding IS NULL OR c.binding = g.binding)
WHERE NOT g.is_configuration
