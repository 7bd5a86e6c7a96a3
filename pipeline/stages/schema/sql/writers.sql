-- one row per (user, definition) with newly refused requests, the most frequent first
-- share: of all requests of this user on this kind
SELECT
    user_name, policy AS definition,
    count(*) FILTER (flip = 'newly-denied') AS requests,
    count(*) AS of_requests,
    list_sort(list_distinct(list(verb) FILTER (flip = 'newly-denied'))) AS verbs,
    count(DISTINCT (namespace, requests.name)) FILTER (flip = 'newly-denied') AS objects,
    mode(rule_ref) FILTER (flip = 'newly-denied') AS rule_ref,
    max(ts) FILTER (flip = 'newly-denied') AS last_ts
FROM read_parquet($verdicts) JOIN requests USING (cluster, audit_id, ts)
GROUP BY ALL
HAVING count(*) FILTER (flip = 'newly-denied') > 0
ORDER BY requests DESC, user_name, definition
