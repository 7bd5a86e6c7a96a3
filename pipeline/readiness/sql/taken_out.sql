-- the audit IDs of the requests that one of these policies would deny, and no longer denies with exemptions
SELECT DISTINCT audit_id
FROM (SELECT policy AS thing, * FROM verdicts)
ANTI JOIN still_denied USING (thing, cluster, audit_id, ts)
WHERE effect = 'deny' AND list_contains($names, policy)
ORDER BY ALL
