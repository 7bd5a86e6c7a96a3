-- fail: a denial speaks of a policy and was not taken apart
SELECT cluster, audit_id, ts, status_message
FROM denials
WHERE denier = 'vap' AND (policy IS NULL OR message = '')
