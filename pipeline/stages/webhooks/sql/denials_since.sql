-- one row: the denials by a webhook since some policies and their bindings were last written; all of them without such a write
SELECT count(*)
FROM requests
WHERE starts_with(status_message, 'admission webhook "' || $webhook || '" denied the request') AND code >= 400
    AND ts >= coalesce((
        SELECT max(stage_ts) FROM events
        WHERE api_group = 'admissionregistration.k8s.io' AND stage = 'ResponseComplete' AND code < 300
            AND verb IN ('create', 'update', 'patch')
            AND ((resource = 'validatingadmissionpolicies' AND list_contains($policies, name))
                OR (resource = 'validatingadmissionpolicybindings' AND list_contains($policies, coalesce(
                    response_object ->> '$.spec.policyName', request_object ->> '$.spec.policyName', ''))))
    ), '-infinity'::TIMESTAMPTZ)
