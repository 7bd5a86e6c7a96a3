-- one row per (policy, binding): its requests that could not be judged and were recorded without bodies, by the audit level
SELECT o.policy, o.binding, r.level, count(*) AS requests
FROM outcomes AS o JOIN folded_requests AS r USING (cluster, audit_id, ts)
WHERE o.outcome = 'unknown' AND r.level NOT IN ('Request', 'RequestResponse')
GROUP BY ALL
ORDER BY policy, binding, requests DESC, level
