-- one row per (policy, binding): requests by how the replay compares with the record
SELECT
    policy, binding,
    count(*) FILTER (result = 'agreed') AS agreed,
    count(*) FILTER (result = 'disagreed') AS disagreed,
    count(*) FILTER (result = 'unknown') AS unknown,
    count(*) FILTER (result = 'silent') AS silent
FROM compared
GROUP BY policy, binding
ORDER BY policy, binding
