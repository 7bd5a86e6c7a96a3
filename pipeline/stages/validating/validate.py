"""Rejects the policies and bindings that the API server would reject. Follows kubernetes
pkg/apis/admissionregistration/validation/validation.go.

Expressions are not compiled here. A policy whose expression does not compile can be in force, because an older version wrote it;
its decision is then a matter of evaluation.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ...manifests.exempting import MATCH_CONDITIONS_MAX
from ...manifests.fields import Fields
from ...matching import MatchResources, Rule
from ...policies.model import Action, Binding, NamedExpression, Policy

AUDIT_ANNOTATIONS_MAX = 20
VALUE_EXPRESSION_BYTES_MAX = 5 * 1024

# The comment of the API type lists Unauthorized, but validation rejects it.
REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge")
OPERATIONS = ("CREATE", "UPDATE", "DELETE", "CONNECT", "*")

_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_QUALIFIED = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_IDENTIFIER = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*")
_DNS_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_RESERVED_WORDS = """
    false in null true as break const continue else for function if import let loop package namespace return var void while
"""


def validate_policy(policy: Policy, root: Fields) -> None:
    """Raises InputError for the first rule that a policy breaks."""
    spec = validate_shared(policy, root)
    if not policy.validations and not policy.audit_annotations:
        raise spec.error(" must have validations or auditAnnotations, or both")
    _validations(spec)
    _match_conditions(policy.match_conditions, spec)
    _variables(policy.variables, spec)
    _audit_annotations(policy, spec)


def validate_mutating(policy: Policy, root: Fields) -> None:
    """The same for the parts that a mutating policy shares with a validating one."""
    spec = validate_shared(policy, root)
    constraints = spec.object("matchConstraints")
    assert constraints is not None
    for rule in constraints.objects("resourceRules"):
        if "DELETE" in rule.texts("operations"):
            raise rule.error(" must be of *, CONNECT, CREATE, UPDATE, not 'DELETE'", "operations")
    _match_conditions(policy.match_conditions, spec)
    _variables(policy.variables, spec)


def validate_shared(policy: Policy, root: Fields) -> Fields:
    """Raises InputError for the first rule on the name, constraints and params that a policy breaks; returns its spec."""
    spec = root.object("spec")
    metadata = root.object("metadata")
    assert spec is not None
    assert metadata is not None
    _subdomain(policy.name, metadata, "name")
    constraints = spec.object("matchConstraints")
    if policy.match_constraints is None or constraints is None:
        raise spec.error(" is required", "matchConstraints")
    if not policy.match_constraints.resource_rules:
        raise constraints.error(" must have at least one rule", "resourceRules")
    _match_resources(policy.match_constraints, constraints)
    if policy.param_kind is not None:
        kind = spec.object("paramKind")
        assert kind is not None
        if not re.fullmatch(r"([^/]+/)?[^/]+", policy.param_kind.api_version):
            raise kind.error(f" must be of the form group/version or v1, not {policy.param_kind.api_version!r}", "apiVersion")
        if not _DNS_1035.fullmatch(policy.param_kind.kind.lower()):
            raise kind.error(f" must be the name of a kind, not {policy.param_kind.kind!r}", "kind")
    return spec


def validate_binding(binding: Binding, root: Fields) -> None:
    """Raises InputError for the first rule that a binding breaks."""
    validate_mutating_binding(binding, root)
    spec = root.object("spec")
    assert spec is not None
    actions = binding.validation_actions
    if not actions:
        raise spec.error(f" must have at least one of {', '.join(Action)}", "validationActions")
    if len(set(actions)) < len(actions):
        raise spec.error(" must not name an action twice", "validationActions")
    if Action.DENY in actions and Action.WARN in actions:
        raise spec.error(" must not have both Deny and Warn: a denial already carries the message", "validationActions")


def validate_mutating_binding(binding: Binding, root: Fields) -> None:
    """The same for a binding without actions, as that of a mutating policy is."""
    spec = root.object("spec")
    metadata = root.object("metadata")
    assert spec is not None
    assert metadata is not None
    _subdomain(binding.name, metadata, "name")
    _subdomain(binding.policy_name, spec, "policyName")
    reference = spec.object("paramRef")
    if binding.param_ref is not None and reference is not None:
        if bool(binding.param_ref.name) == (binding.param_ref.selector is not None):
            raise reference.error(" must have exactly one of name and selector")
        if binding.param_ref.not_found_action is None:
            raise reference.error(" is required", "parameterNotFoundAction", "it is Allow or Deny")
    resources = spec.object("matchResources")
    if binding.match_resources is not None and resources is not None:
        _match_resources(binding.match_resources, resources)


def _validations(spec: Fields) -> None:
    for item in spec.objects("validations"):
        if not item.text("expression").strip():
            raise item.error(" is required", "expression")
        item.text("reason", "Invalid", REASONS)
        if item.has("message"):
            message = item.text("message")
            if not message.strip():
                raise item.error(" must not be blank", "message")
            if "\n" in message.strip() or "\r" in message.strip():
                raise item.error(" must not contain line breaks", "message")
        if item.has("messageExpression") and not item.text("messageExpression").strip():
            raise item.error(" must not be blank", "messageExpression")


def _match_conditions(conditions: tuple[NamedExpression, ...], spec: Fields) -> None:
    if len(conditions) > MATCH_CONDITIONS_MAX:
        raise spec.error(f" must have at most {MATCH_CONDITIONS_MAX} items, not {len(conditions)}", "matchConditions")
    items = spec.objects("matchConditions")
    _unique((condition.name for condition in conditions), items, "name")
    for condition, item in zip(conditions, items, strict=True):
        if not is_qualified_name(condition.name):
            raise item.error(f" must be a qualified name, not {condition.name!r}", "name")
        if not condition.expression.strip():
            raise item.error(" is required", "expression")


def _variables(variables: tuple[NamedExpression, ...], spec: Fields) -> None:
    for variable, item in zip(variables, spec.objects("variables"), strict=True):
        if not _IDENTIFIER.fullmatch(variable.name) or variable.name in _RESERVED_WORDS.split():
            raise item.error(f" must be a CEL identifier, not {variable.name!r}", "name")
        if not variable.expression.strip():
            raise item.error(" is required", "expression")


def _audit_annotations(policy: Policy, spec: Fields) -> None:
    annotations = policy.audit_annotations
    if len(annotations) > AUDIT_ANNOTATIONS_MAX:
        raise spec.error(f" must have at most {AUDIT_ANNOTATIONS_MAX} items, not {len(annotations)}", "auditAnnotations")
    items = spec.objects("auditAnnotations")
    _unique((annotation.name for annotation in annotations), items, "key")
    for annotation, item in zip(annotations, items, strict=True):
        if not is_qualified_name(f"{policy.name}/{annotation.name}"):
            raise item.error(f": {policy.name}/{annotation.name} must be a qualified name (at most 63 characters after /)", "key")
        if not annotation.expression.strip():
            raise item.error(" is required", "valueExpression")
        if len(annotation.expression.encode()) > VALUE_EXPRESSION_BYTES_MAX:
            raise item.error(f" must be at most {VALUE_EXPRESSION_BYTES_MAX} bytes", "valueExpression")


def _match_resources(resources: MatchResources, fields: Fields) -> None:
    for name, rules in (("resourceRules", resources.resource_rules), ("excludeResourceRules", resources.exclude_resource_rules)):
        for rule, item in zip(rules, fields.objects(name), strict=True):
            _rule(rule, item)


def _rule(rule: Rule, fields: Fields) -> None:
    for name, values in (
        ("operations", rule.operations),
        ("apiGroups", rule.api_groups),
        ("apiVersions", rule.api_versions),
        ("resources", rule.resources),
    ):
        if not values:
            raise fields.error(" is required", name)
        if name != "resources" and "*" in values and len(values) > 1:
            raise fields.error(": if '*' is present, must not specify other values", name)
    for operation in rule.operations:
        if operation not in OPERATIONS:
            raise fields.error(f" must be of {', '.join(OPERATIONS)}, not {operation!r}", "operations")
    _resources(rule.resources, fields)
    if len(set(rule.resource_names)) < len(rule.resource_names):
        raise fields.error(" must not name anything twice", "resourceNames")


def _resources(resources: tuple[str, ...], fields: Fields) -> None:
    """As upstream, rejects an entry that an earlier wildcard covers, but not one before the wildcard."""
    wildcards: set[str] = set()
    for entry in resources:
        resource, slash, subresource = entry.partition("/")
        if not entry:
            raise fields.error(" must not hold an empty one", "resources")
        covering = {f"{resource}/*", f"*/{subresource}"} & wildcards if slash else set()
        if covering:
            raise fields.error(f": if {min(covering)!r} is present, must not specify {entry}", "resources")
        wildcards |= {entry} if slash and "*" in (resource, subresource) else set()
    # `*` next to `*/scale` is allowed, because `*` covers no subresources.
    if "*" in resources and any("/" not in entry for entry in resources if entry != "*"):
        raise fields.error(": if '*' is present, must not specify other resources without subresources", "resources")
    if "*/*" in resources and len(resources) > 1:
        raise fields.error(": if '*/*' is present, must not specify other resources", "resources")


def is_qualified_name(name: str) -> bool:
    """`[prefix/]name`: a DNS subdomain of at most 253 characters and a name of at most 63."""
    prefix, slash, tail = name.rpartition("/")
    if slash and not (_SUBDOMAIN.fullmatch(prefix) and len(prefix) <= 253):
        return False
    return len(tail) <= 63 and bool(_QUALIFIED.fullmatch(tail))


def _subdomain(name: str, fields: Fields, field: str) -> None:
    if not _SUBDOMAIN.fullmatch(name) or len(name) > 253:
        raise fields.error(f" must be a DNS subdomain (lower case letters, digits, '-' and '.'), not {name!r}", field)


def _unique(names: Iterable[str], items: list[Fields], field: str) -> None:
    seen: set[str] = set()
    for name, item in zip(names, items, strict=True):
        if name in seen:
            raise item.error(f": {name!r} is there twice", field)
        seen.add(name)
