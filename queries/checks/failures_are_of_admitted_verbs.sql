-- fail: a validation failure is recorded of a request that no policy can have seen; the classification of requests is wrong
SELECT violations.cluster, violations.audit_id, violations.ts, violations.verb, violations.resource, violations.subresource, ran, ran_reason
FROM violations LEFT JOIN admission_writes USING (cluster, audit_id, ts)
WHERE ran IS NULL OR ran = 'no'
