-- fail: the decoded failures are not as many as the annotation holds
SELECT cluster, audit_id, stage, stage_ts, len(vap_failures) AS decoded
FROM events
WHERE annotations['validation.policy.admission.k8s.io/validation_failure'] IS NOT NULL
    AND json_array_length(annotations['validation.policy.admission.k8s.io/validation_failure']) IS DISTINCT FROM len(vap_failures)
