-- whether ValidatingAdmissionPolicies are never asked about a resource, whatever their rules say
-- api_group: of objectRef
-- resource: of objectRef
--
-- kubernetes/apiserver pkg/admission/plugin/policy/generic/plugin.go and
-- kubernetes/kubernetes pkg/kubeapiserver/admission/exclusion/resources.go.
CREATE MACRO exempt_from_policies(api_group, resource) AS (api_group, resource) IN (
    ('admissionregistration.k8s.io', 'mutatingadmissionpolicies'),
    ('admissionregistration.k8s.io', 'mutatingadmissionpolicybindings'),
    ('admissionregistration.k8s.io', 'validatingadmissionpolicies'),
    ('admissionregistration.k8s.io', 'validatingadmissionpolicybindings'),
    ('authentication.k8s.io', 'selfsubjectreviews'),
    ('authentication.k8s.io', 'tokenreviews'),
    ('authorization.k8s.io', 'localsubjectaccessreviews'),
    ('authorization.k8s.io', 'selfsubjectaccessreviews'),
    ('authorization.k8s.io', 'selfsubjectrulesreviews'),
    ('authorization.k8s.io', 'subjectaccessreviews')
)
