"""Validating admission: ValidatingAdmissionPolicies and their bindings. What stages of CEL share is in pipeline/policies."""
