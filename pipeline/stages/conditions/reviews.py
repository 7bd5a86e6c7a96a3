"""Reads SubjectAccessReviews with a conditional answer, in both public forms.

The text of KEP-5681 has `status.conditionSetChain`; the API that is under review has `status.conditionalDecision`. Neither is in a
release. A review answers one question, so its chain is about the requests that ask this question.
"""

from __future__ import annotations

from itertools import pairwise

from ...manifests.fields import Fields
from ...matching.field_text import FieldTerm, parse_field_selector
from ...matching.label_text import parse_label_selector
from ...matching.selectors import OPERATORS, Requirement, SelectorError
from .chain import About, Authorizer, Builtin, Chain, Shape
from .model import Condition, Decision, Effect, Plain, conditions_map, union_of

REVIEW_GROUP = "authorization.k8s.io"
REVIEW_KINDS = frozenset({"SubjectAccessReview", "LocalSubjectAccessReview"})
_API_LISTS = ("denyConditions", "noOpinionConditions", "allowConditions")
_PLAIN = {"deny": Effect.DENY, "noOpinion": Effect.NO_OPINION, "allow": Effect.ALLOW}


def review_of(root: Fields) -> Chain:
    """The chain of one review. Raises InputError with the line."""
    spec, status = root.object("spec"), root.object("status")
    if spec is None or status is None:
        raise root.error(" is required", "spec" if spec is None else "status")
    forms = [field for field in ("conditionSetChain", "conditionalDecision") if status.has(field)]
    if len(forms) != 1:
        found = "both" if forms else "neither"
        raise status.error(f" must have conditionSetChain or conditionalDecision, and has {found}")
    about = _about(spec)
    if forms == ["conditionSetChain"]:
        authorizers = tuple(_kep_set(each, index) for index, each in enumerate(status.objects("conditionSetChain")))
        shape = Shape.KEP
    else:
        decision = status.object("conditionalDecision")
        assert decision is not None
        authorizers, shape = _api_members(decision), Shape.API
    metadata = root.object("metadata")
    name = metadata.text("name", "") if metadata is not None else ""
    shown = f"{about.verb} {about.path or about.resource} by {about.user}"
    return Chain(name or shown, shape, authorizers, about=about, source=root.where())


def _kep_set(fields: Fields, index: int) -> Authorizer:
    fields.only(
        "allowed", "denied", "failureMode", "authorizerName", "conditionsType", "conditions", "conditionSetChain", "reason",
        "evaluationError",
    )  # fmt: skip
    name = fields.text("authorizerName", "") or f"authorizer-{index}"
    return Authorizer(name, _kep_decision(fields), source=fields.where())


def _kep_decision(fields: Fields) -> Decision | Builtin:
    reason, error = fields.text("reason", ""), fields.text("evaluationError", "")
    if fields.value.get("allowed") is True:
        return Plain(Effect.ALLOW, reason, error)
    if fields.value.get("denied") is True:
        return Plain(Effect.DENY, reason, error)
    if fields.has("conditionSetChain"):
        members = [_kep_set(each, index) for index, each in enumerate(fields.objects("conditionSetChain"))]
        return union_of([(each.name, each.decision) for each in members if not isinstance(each.decision, Builtin)])
    if not fields.has("conditions"):
        return Plain(Effect.NO_OPINION, reason, error)
    kind = fields.text("conditionsType", "")
    lists: dict[Effect, list[Condition]] = {effect: [] for effect in Effect}
    for each in fields.objects("conditions"):
        each.only("id", "effect", "condition", "description")
        lists[Effect(each.text("effect", None, Effect))].append(_condition(each, kind))
    return conditions_map(lists[Effect.DENY], lists[Effect.NO_OPINION], lists[Effect.ALLOW])


def _api_members(fields: Fields) -> tuple[Authorizer, ...]:
    if fields.text("type") != "Union":
        return (Authorizer("authorizer", _api_decision(fields), source=fields.where()),)
    return tuple(_api_member(each) for each in fields.objects("union"))


def _api_member(fields: Fields) -> Authorizer:
    fields.only("authorizerName", "decision")
    decision = fields.object("decision")
    if decision is None:
        raise fields.error(" is required", "decision")
    return Authorizer(fields.text("authorizerName"), _api_decision(decision), source=fields.where())


def _api_decision(fields: Fields) -> Decision:
    fields.only("type", "deny", "noOpinion", "allow", "conditionsMap", "union")
    kind = fields.text("type", None, ("Deny", "Allow", "NoOpinion", "ConditionsMap", "Union"))
    own = kind[0].lower() + kind[1:]
    given = fields.value.keys() - {"type"}
    if given - {own}:
        raise fields.error(f" must have only {own} for type {kind}", min(given - {own}))
    if kind == "Union":
        members = [_api_member(each) for each in fields.objects("union")]
        return union_of([(each.name, each.decision) for each in members if not isinstance(each.decision, Builtin)])
    content = fields.object(own)
    if own in _PLAIN:
        if content is not None:
            content.only("reason", "evaluationError")
        reason, error = (content.text("reason", ""), content.text("evaluationError", "")) if content else ("", "")
        return Plain(_PLAIN[own], reason, error)
    if content is None:
        raise fields.error(" is required", own)
    content.only(*_API_LISTS)
    deny, no_opinion, allow = ([_api_condition(each) for each in content.objects(name)] for name in _API_LISTS)
    return conditions_map(deny, no_opinion, allow)


def _api_condition(fields: Fields) -> Condition:
    fields.only("id", "type", "condition", "description")
    return _condition(fields, fields.text("type", ""))


def _condition(fields: Fields, kind: str) -> Condition:
    return Condition(fields.text("id"), fields.text("condition"), kind, fields.text("description", ""), fields.where("condition"))


def _about(spec: Fields) -> About:
    resource, other = spec.object("resourceAttributes"), spec.object("nonResourceAttributes")
    if (resource is None) == (other is None):
        raise spec.error(" must have one of resourceAttributes and nonResourceAttributes")
    user, groups = spec.text("user"), spec.texts("groups")
    if other is not None:
        return About(user, groups, other.text("verb"), other.text("path"))
    assert resource is not None
    labels, fields = resource.object("labelSelector"), resource.object("fieldSelector")
    return About(
        user,
        groups,
        resource.text("verb"),
        group=resource.text("group", ""),
        resource=resource.text("resource", ""),
        subresource=resource.text("subresource", ""),
        namespace=resource.text("namespace", ""),
        name=resource.text("name", ""),
        labels=frozenset(_labels(labels)) if labels is not None else None,
        fields=frozenset(_fields(fields)) if fields is not None else None,
    )


def _labels(fields: Fields) -> tuple[Requirement, ...]:
    if (raw := _raw(fields)) is not None:
        try:
            return parse_label_selector(raw).requirements
        except SelectorError as problem:
            raise fields.error(f": {problem}", "rawSelector") from None
    return tuple(
        Requirement(each.text("key"), each.text("operator", None, OPERATORS), frozenset(each.texts("values")))
        for each in fields.objects("requirements")
    )


def _fields(fields: Fields) -> tuple[FieldTerm, ...]:
    if (raw := _raw(fields)) is not None:
        try:
            return parse_field_selector(raw)
        except SelectorError as problem:
            raise fields.error(f": {problem}", "rawSelector") from None
    found = []
    for each in fields.objects("requirements"):
        operator, values = each.text("operator", None, OPERATORS), each.texts("values")
        if operator not in ("In", "NotIn") or len(values) != 1:
            raise each.error(" must be In or NotIn with one value: a request in a log selects fields by = and != only", "operator")
        found.append(FieldTerm(each.text("key"), values[0], operator == "NotIn"))
    return tuple(found)


def _raw(fields: Fields) -> str | None:
    fields.only("rawSelector", "requirements")
    given = [name for name in ("rawSelector", "requirements") if fields.has(name)]
    for one, two in pairwise(given):
        raise fields.error(f" must have one of {one} and {two}")
    return fields.text("rawSelector") if given == ["rawSelector"] else None
