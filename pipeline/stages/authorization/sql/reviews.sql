-- one row per recorded access review that was answered, with all columns of `events`: its bodies hold a question and the answer
FROM events
WHERE api_group = 'authorization.k8s.io' AND verb = 'create' AND stage = 'ResponseComplete' AND code BETWEEN 200 AND 299
    AND list_position(['subjectaccessreviews', 'selfsubjectaccessreviews', 'localsubjectaccessreviews'], resource) > 0
    AND response_object IS NOT NULL
    AND ts IS NOT NULL AND ($since IS NULL OR ts >= $since) AND ($until IS NULL OR ts < $until)
ORDER BY ts, audit_id
