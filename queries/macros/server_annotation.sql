-- whether an audit annotation is one that kube-apiserver itself, or a built-in plugin writes
-- key: annotation key
--
-- The table of keys is that of Kubernetes 1.36. A policy cannot be distinguished from these keys by its name alone. So an
-- annotation of a policy with such a key counts as the server's.
CREATE MACRO server_annotation(key) AS
    split_part(key, '/', 1) IN (
        'apiserver.k8s.io', -- unsafe-delete-ignore-read-error; kubernetes/apiserver pkg/endpoints/handlers/delete.go
        'apiserver.latency.k8s.io', -- durations of slow requests; pkg/endpoints/filters/audit.go
        'audit.k8s.io', -- truncated; plugin/pkg/audit/truncate/truncate.go
        'authentication.k8s.io',
        'authentication.kubernetes.io', -- issued-credential-id; pkg/authentication/serviceaccount/util.go
        'authorization.k8s.io', -- decision, reason; pkg/endpoints/filters/authorization.go
        'failed-open.mutation.webhook.admission.k8s.io',
        'failed-open.validating.webhook.admission.k8s.io',
        'failed-open.validation.webhook.admission.k8s.io',
        'insecure-sha1.invalid-cert.kubernetes.io', -- pkg/util/x509metrics/server_cert_deprecations.go
        'k8s.io', -- deprecated, removed-release; pkg/endpoints/metrics/metrics.go
        'missing-san.invalid-cert.kubernetes.io',
        'mutation.webhook.admission.k8s.io', -- pkg/admission/plugin/webhook/mutating/dispatcher.go
        'patch.webhook.admission.k8s.io',
        'pod-security.kubernetes.io', -- kubernetes/pod-security-admission api/constants.go
        'validation.policy.admission.k8s.io' -- pkg/admission/plugin/policy/validating/dispatcher.go
    )
