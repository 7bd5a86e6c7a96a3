-- one row per (policy, binding, critical subject) with a new denial, the most first
SELECT policy, binding, critical || ' ' || critical_subject AS subject, count(*) AS requests
FROM changed
WHERE fate = 'new' AND critical IS NOT NULL
GROUP BY ALL
ORDER BY policy, binding, requests DESC, subject
