"""From the JSON of a ValidatingAdmissionPolicy or binding to the model, with the defaults that the API server would write.

Defaults follow kubernetes pkg/apis/admissionregistration/{v1,v1beta1,v1alpha1}/defaults.go. This module applies them to files,
because no server has done so. A selector that is left out selects everything in the API, but is an error in the matcher.
"""

from __future__ import annotations

from ...manifests.documents import Document
from ...manifests.fields import Fields
from ...matching import EVERYTHING, LabelSelector, MatchResources, Rule, SelectorError, selector_from_object
from ...policies.model import (
    Action,
    Binding,
    FailurePolicy,
    NamedExpression,
    NotFoundAction,
    ParamKind,
    ParamRef,
    Policy,
    Validation,
)
from ...request import Object
from .validate import validate_binding, validate_policy

GROUP = "admissionregistration.k8s.io"
VERSIONS = tuple(f"{GROUP}/{version}" for version in ("v1", "v1beta1", "v1alpha1"))
POLICY, BINDING = "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"
MUTATING_POLICY = "MutatingAdmissionPolicy"


def is_mutating(value: Object) -> bool:
    """Whether a manifest is a mutating policy: policies given with one see objects as it leaves them."""
    return value.get("kind") == MUTATING_POLICY and str(value.get("apiVersion")).partition("/")[0] == GROUP


def policy_from_object(obj: Object, source: str) -> Policy:
    """A policy as the API server stored it (an audit log's responseObject, a snapshot): with defaults, but not validated again."""
    return policy_of_fields(Fields(Document(obj, source)))


def binding_from_object(obj: Object, source: str) -> Binding:
    """A binding as the API server stored it."""
    return binding_of_fields(Fields(Document(obj, source)))


def policy_from_document(document: Document) -> Policy:
    """A policy that a person wrote. Raises InputError for unknown fields and for everything that the API server would reject."""
    root = Fields(document)
    only_known(root, _POLICY_FIELDS)
    policy = policy_of_fields(root)
    validate_policy(policy, root)
    return policy


def binding_from_document(document: Document) -> Binding:
    """A binding that a person wrote. Raises InputError for unknown fields and for everything that the API server would reject."""
    root = Fields(document)
    only_known(root, _BINDING_FIELDS)
    binding = binding_of_fields(root)
    validate_binding(binding, root)
    return binding


_RULE: dict[str, object] = dict.fromkeys(("operations", "apiGroups", "apiVersions", "resources", "scope", "resourceNames"))
_MATCH: dict[str, object] = {
    "namespaceSelector": None,
    "objectSelector": None,
    "matchPolicy": None,
    "resourceRules": [_RULE],
    "excludeResourceRules": [_RULE],
}
_NAMED: dict[str, object] = {"name": None, "expression": None}
_TOP: dict[str, object] = {"apiVersion": None, "kind": None, "metadata": None, "status": None}
# Every field of the two types; None stands for a leaf, or for an object that other code reads.
_SHARED: dict[str, object] = {
    "paramKind": {"apiVersion": None, "kind": None},
    "matchConstraints": _MATCH,
    "failurePolicy": None,
    "matchConditions": [_NAMED],
    "variables": [_NAMED],
}
_BINDING_SHARED: dict[str, object] = {
    "policyName": None,
    "paramRef": dict.fromkeys(("name", "namespace", "selector", "parameterNotFoundAction")),
    "matchResources": _MATCH,
}
_POLICY_FIELDS: dict[str, object] = _TOP | {
    "spec": _SHARED
    | {
        "validations": [dict.fromkeys(("expression", "message", "messageExpression", "reason"))],
        "auditAnnotations": [{"key": None, "valueExpression": None}],
    }
}
_BINDING_FIELDS: dict[str, object] = _TOP | {"spec": _BINDING_SHARED | {"validationActions": None}}
MUTATING_POLICY_FIELDS: dict[str, object] = _TOP | {
    "spec": _SHARED
    | {
        "reinvocationPolicy": None,
        "mutations": [{"patchType": None, "applyConfiguration": {"expression": None}, "jsonPatch": {"expression": None}}],
    }
}
MUTATING_BINDING_FIELDS: dict[str, object] = _TOP | {"spec": _BINDING_SHARED}


def only_known(fields: Fields, known: object) -> None:
    """Raises InputError for the first field that a table of fields does not have."""
    assert isinstance(known, dict)
    fields.only(*known)
    for name, inner in known.items():
        if isinstance(inner, dict) and (nested := fields.object(name)):
            only_known(nested, inner)
        elif isinstance(inner, list):
            for item in fields.objects(name):
                only_known(item, inner[0])


def policy_of_fields(root: Fields) -> Policy:
    """The fields of a policy, with defaults. A mutating policy has the same but for validations and annotations."""
    metadata, spec = _metadata(root), root.object("spec")
    if spec is None:
        raise root.error(" is required", "spec")
    constraints, kind = spec.object("matchConstraints"), spec.object("paramKind")
    return Policy(
        name=metadata.text("name"),
        match_constraints=_match_resources(constraints) if constraints else None,
        validations=tuple(_validation(item) for item in spec.objects("validations")),
        variables=_named(spec, "variables", "name", "expression"),
        match_conditions=_named(spec, "matchConditions", "name", "expression"),
        audit_annotations=_named(spec, "auditAnnotations", "key", "valueExpression"),
        failure_policy=FailurePolicy(spec.text("failurePolicy", "Fail", FailurePolicy)),
        param_kind=ParamKind(kind.text("apiVersion"), kind.text("kind")) if kind else None,
        resource_version=metadata.text("resourceVersion", ""),
        source=root.where(),
    )


def binding_of_fields(root: Fields) -> Binding:
    """The fields of a binding, with defaults. That of a mutating policy has the same but for actions."""
    metadata, spec = _metadata(root), root.object("spec")
    if spec is None:
        raise root.error(" is required", "spec")
    reference, resources = spec.object("paramRef"), spec.object("matchResources")
    is_alpha = root.text("apiVersion", VERSIONS[0]).endswith("/v1alpha1")
    return Binding(
        name=metadata.text("name"),
        policy_name=spec.text("policyName"),
        validation_actions=tuple(_action(spec, action) for action in spec.texts("validationActions")),
        param_ref=_param_ref(reference, is_alpha) if reference else None,
        match_resources=_match_resources(resources) if resources else None,
        resource_version=metadata.text("resourceVersion", ""),
        source=root.where(),
    )


def _metadata(root: Fields) -> Fields:
    metadata = root.object("metadata")
    if metadata is None:
        raise root.error(" is required", "metadata")
    return metadata


def _validation(fields: Fields) -> Validation:
    return Validation(
        fields.text("expression"),
        fields.text("message", ""),
        fields.text("reason", ""),
        fields.text("messageExpression", ""),
        fields.where("expression"),
    )


def _named(spec: Fields, field: str, name: str, expression: str) -> tuple[NamedExpression, ...]:
    return tuple(NamedExpression(item.text(name), item.text(expression), item.where(expression)) for item in spec.objects(field))


def _action(spec: Fields, action: str) -> Action:
    try:
        return Action(action)
    except ValueError:
        raise spec.error(f" must be of {', '.join(Action)}, not {action!r}", "validationActions") from None


def _param_ref(fields: Fields, is_alpha: bool) -> ParamRef:
    # Only v1alpha1 defaults parameterNotFoundAction; later versions require it.
    action = fields.text("parameterNotFoundAction", "Deny" if is_alpha else "", (*NotFoundAction, ""))
    return ParamRef(
        fields.text("name", ""),
        fields.text("namespace", ""),
        _selector(fields, "selector") if fields.has("selector") else None,
        NotFoundAction(action) if action else None,
    )


def match_resources_of_webhook(fields: Fields) -> MatchResources:
    """The rules and selectors of one entry of `webhooks`; the caller knows the default of matchPolicy in its version."""
    return _match_resources(fields, "rules")


def _match_resources(fields: Fields, rules: str = "resourceRules") -> MatchResources:
    return MatchResources(
        tuple(_rule(item) for item in fields.objects(rules)),
        tuple(_rule(item) for item in fields.objects("excludeResourceRules")),
        _selector(fields, "namespaceSelector"),
        _selector(fields, "objectSelector"),
        fields.text("matchPolicy", "Equivalent", ("Equivalent", "Exact")),
    )


def _selector(fields: Fields, name: str) -> LabelSelector:
    nested = fields.object(name)
    if nested is None:
        return EVERYTHING
    try:
        return selector_from_object(nested.value)
    except SelectorError as error:
        raise nested.error(f": {error}") from None


def _rule(fields: Fields) -> Rule:
    return Rule(
        fields.texts("operations"),
        fields.texts("apiGroups"),
        fields.texts("apiVersions"),
        fields.texts("resources"),
        fields.text("scope", "*", ("*", "Namespaced", "Cluster")),
        fields.texts("resourceNames"),
    )


def match_resources_from_object(obj: Object, source: str = "matchResources") -> MatchResources:
    """matchConstraints or matchResources alone, defaulted as the API server would."""
    return _match_resources(Fields(Document(obj, source)))
