"""From the model back to the objects of the API, which `decode` reads as the same policy or binding.

For policies without a manifest at hand. Comments, labels and order that a person wrote are only in the manifest.
"""

from __future__ import annotations

from typing import Any

from ...matching import LabelSelector, MatchResources, Requirement, Rule
from ...policies.model import Binding, NamedExpression, ParamRef, Policy, Validation
from ...request import Object
from .decode import BINDING, POLICY, VERSIONS


def policy_to_object(policy: Policy) -> Object:
    """A ValidatingAdmissionPolicy of v1, without the values that the API would set by default."""
    kind = policy.param_kind
    spec = {
        "failurePolicy": str(policy.failure_policy),
        "paramKind": {"apiVersion": kind.api_version, "kind": kind.kind} if kind else None,
        "matchConstraints": _match_resources(policy.match_constraints) if policy.match_constraints else None,
        "matchConditions": [_named(item, "name", "expression") for item in policy.match_conditions],
        "variables": [_named(item, "name", "expression") for item in policy.variables],
        "validations": [_validation(item) for item in policy.validations],
        "auditAnnotations": [_named(item, "key", "valueExpression") for item in policy.audit_annotations],
    }
    return _object(POLICY, policy.name, spec)


def binding_to_object(binding: Binding) -> Object:
    """A ValidatingAdmissionPolicyBinding of v1."""
    spec = {
        "policyName": binding.policy_name,
        "paramRef": _param_ref(binding.param_ref) if binding.param_ref else None,
        "matchResources": _match_resources(binding.match_resources) if binding.match_resources else None,
        "validationActions": [str(action) for action in binding.validation_actions],
    }
    return _object(BINDING, binding.name, spec)


def _object(kind: str, name: str, spec: dict[str, Any]) -> Object:
    return {"apiVersion": VERSIONS[0], "kind": kind, "metadata": {"name": name}, "spec": _given(spec)}


def _given(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields that are not empty: absent and empty mean the same to the API, except for a selector that selects everything."""
    return {name: value for name, value in fields.items() if value not in (None, "", [])}


def _named(item: NamedExpression, name: str, expression: str) -> dict[str, Any]:
    return {name: item.name, expression: item.expression}


def _validation(item: Validation) -> dict[str, Any]:
    fields = {
        "expression": item.expression,
        "message": item.message,
        "messageExpression": item.message_expression,
        "reason": item.reason,
    }
    return _given(fields)


def _param_ref(item: ParamRef) -> dict[str, Any]:
    return _given(
        {
            "name": item.name,
            "namespace": item.namespace,
            "selector": selector_to_object(item.selector) if item.selector is not None else None,
            "parameterNotFoundAction": str(item.not_found_action) if item.not_found_action else None,
        }
    )


def _match_resources(item: MatchResources) -> dict[str, Any]:
    return _given(
        {
            "matchPolicy": item.match_policy,
            "namespaceSelector": _selector(item.namespace_selector),
            "objectSelector": _selector(item.object_selector),
            "resourceRules": [_rule(rule) for rule in item.resource_rules],
            "excludeResourceRules": [_rule(rule) for rule in item.exclude_resource_rules],
        }
    )


def _selector(selector: LabelSelector | None) -> dict[str, Any] | None:
    return selector_to_object(selector) if selector is not None and selector.requirements else None


def selector_to_object(selector: LabelSelector) -> dict[str, Any]:
    """A label selector as matchExpressions; empty where it selects everything."""
    return _given({"matchExpressions": [_requirement(item) for item in selector.requirements]})


def _requirement(item: Requirement) -> dict[str, Any]:
    return _given({"key": item.key, "operator": item.operator, "values": sorted(item.values)})


def _rule(rule: Rule) -> dict[str, Any]:
    fields = {
        "operations": list(rule.operations),
        "apiGroups": list(rule.api_groups),
        "apiVersions": list(rule.api_versions),
        "resources": list(rule.resources),
        "scope": rule.scope if rule.scope != "*" else None,
        "resourceNames": list(rule.resource_names),
    }
    return _given(fields)
