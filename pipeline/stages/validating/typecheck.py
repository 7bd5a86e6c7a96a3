"""Type checks policies against the schemas of the kinds they match, as kube-controller-manager does.

Follows kubernetes/apiserver pkg/admission/plugin/policy/validating/typechecking.go. The outcome is informational: an API server
never reads it. An expression with a warning may work for the objects that it meets, for example because it tests the kind first.
Only validations and their messages are checked; variables are checked where these use them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from ingest.errors import InputError

from ...cel import CompileError, Environment
from ...cel.checking.check import check
from ...cel.checking.schema_types import SchemaType, schema_type
from ...cel.stack import on_fresh_stack
from ...cel.syntax.parse import parse
from ...cel.types import DYN, Type
from ...matching import Rule
from ...openapi import Schemas
from ...policies.compile import TOO_DEEP
from ...policies.declarations import Declarations, scope_for
from ...policies.environments import NestingError, extended
from ...policies.model import Policy
from ...request import GroupVersionKind, GroupVersionResource

KINDS_MAX = 10  # of one rule; further kinds are not checked


@dataclass(frozen=True, slots=True)
class ExpressionWarning:
    """One entry of status.typeChecking.expressionWarnings. `warning` has a block for each kind with a type error."""

    field_ref: str
    warning: str


def expression_warnings(policy: Policy, schemas: Schemas, version: tuple[int, int]) -> tuple[ExpressionWarning, ...]:
    """The warnings that a controller of this Kubernetes version would write into the status of a policy.

    Raises InputError if the types of its variables nest deeper than Hindcast can compile: its warnings are not known then.
    """
    try:
        return on_fresh_stack(lambda: _warnings(policy, schemas, version))
    except NestingError:
        what = f"{policy.source or policy.name}: {policy.name}: {TOO_DEEP}"
        raise InputError(what, "let variables nest lists in fewer levels, or check the other policies without this one") from None


def _warnings(policy: Policy, schemas: Schemas, version: tuple[int, int]) -> tuple[ExpressionWarning, ...]:
    checkers = [_KindChecker(policy, kind, schemas, version) for kind in kinds_to_check(policy, schemas)]
    found: list[ExpressionWarning] = []
    for index, validation in enumerate(policy.validations):
        for name, text in (("expression", validation.expression), ("messageExpression", validation.message_expression)):
            issues = [f"{_shown(checker.kind)}: {issue}\n" for checker in checkers if text and (issue := checker.issue(text))]
            if issues:
                found.append(ExpressionWarning(f"spec.validations[{index}].{name}", "\n".join(issues)))
    return tuple(found)


def kinds_to_check(policy: Policy, schemas: Schemas) -> list[GroupVersionKind]:
    """The kinds with a schema that a policy's rules name, sorted. Rules with wildcards or subresources name no kinds."""
    if policy.match_constraints is None:
        return []
    kinds: set[GroupVersionKind] = set()
    for rule in policy.match_constraints.resource_rules:
        found = [kind for resource in _resources(rule) for kind in schemas.kinds_of(resource)][:KINDS_MAX]
        kinds.update(found)
        if len(found) == KINDS_MAX:
            break  # Upstream returns here, so that it skips later rules.
    return sorted((kind for kind in kinds if _root_type(kind, schemas) is not None), key=_order)


@dataclass(frozen=True, slots=True)
class CheckedRule:
    """A resource of a policy's rules, such as `apps/v1 deployments`. `outcome` is yes, no or unknown, and `why` its reason."""

    resource: str
    outcome: str
    why: str = ""


def checked_rules(policy: Policy, schemas: Schemas) -> tuple[CheckedRule, ...]:
    """Which resources of the rules are checked. Resources that a described group does not have are left out."""
    if policy.match_constraints is None:
        return ()
    kinds = kinds_to_check(policy, schemas)
    found = [each for rule in policy.match_constraints.resource_rules for each in _outcomes(rule, kinds, schemas)]
    return tuple(dict.fromkeys(found))


def _outcomes(rule: Rule, kinds: list[GroupVersionKind], schemas: Schemas) -> Iterator[CheckedRule]:
    for group, version, name in product(rule.api_groups, rule.api_versions, rule.resources):
        shown = f"{group}/{version} {name}".removeprefix("/")
        resource = GroupVersionResource(group, version, name)
        if "*" in f"{group}{version}":
            yield CheckedRule(shown, "no", "wildcard group or version")
        elif set("*/") & set(name):
            yield CheckedRule(shown, "no", "wildcard" if "*" in name else "subresource")
        elif known := schemas.kinds_of(resource):
            has_room = any(kind in kinds for kind in known)
            yield (CheckedRule(shown, "yes") if has_room else CheckedRule(shown, "no", f"more than {KINDS_MAX} kinds"))
        elif not schemas.describes(group, version):
            yield CheckedRule(shown, "unknown", "no schema known")


def _resources(rule: Rule) -> Iterator[GroupVersionResource]:
    if any("*" in name for name in (*rule.api_groups, *rule.api_versions)):
        return
    for group in sorted(rule.api_groups):
        for version in sorted(rule.api_versions):
            for resource in sorted(rule.resources):
                if not set("*/") & set(resource):
                    yield GroupVersionResource(group, version, resource)


def _order(kind: GroupVersionKind) -> tuple[str, str, str]:
    return kind.group, kind.version, kind.kind


def _shown(kind: GroupVersionKind) -> str:
    return f"{kind.group}/{kind.version}, Kind={kind.kind}"


def _root_type(kind: GroupVersionKind, schemas: Schemas) -> SchemaType | None:
    schema = schemas.schema_of(kind)
    return None if schema is None else schema_type(schema, kind.kind)


class _KindChecker:
    """Checks expressions of one policy for objects of one kind."""

    def __init__(self, policy: Policy, kind: GroupVersionKind, schemas: Schemas, version: tuple[int, int]) -> None:
        self.kind = kind
        declared = _declarations(policy, _root_type(kind, schemas), _params_type(policy, schemas))
        self._environment = Environment(version, declared.variables, declared.object_types)
        for variable in policy.variables:
            # A variable with an error is dyn to the expressions that use it; its own error is not reported.
            checked = self._check(variable.expression)
            type_ = DYN if isinstance(checked, CompileError) else checked
            self._environment = extended(self._environment, variable.name, type_)

    def issue(self, text: str) -> str | None:
        """Why an expression does not compile for objects of this kind; None if it does."""
        checked = self._check(text)
        return str(checked) if isinstance(checked, CompileError) else None

    def _check(self, text: str) -> Type | CompileError:
        environment = self._environment

        def work() -> Type:
            # Programs are not made: a constant that cannot be converted goes unnoticed here.
            tree = parse(text, environment.release.macros, environment.release.quoted_identifiers)
            return check(tree, environment.scope, text).result_type

        try:
            return on_fresh_stack(work)
        except CompileError as refusal:
            return refusal


def _declarations(policy: Policy, object_: SchemaType | None, params: SchemaType | None) -> Declarations:
    typed = [each for each in (object_, params) if each is not None]
    object_types = {each.name: each for root in typed for each in root.object_types()}
    declared = scope_for(
        has_params=policy.param_kind is not None,
        has_authorizer=True,
        variables={},
        object_type=object_.type if object_ else DYN,
        params_type=params.type if params else DYN,
        object_types=tuple(object_types.values()),
    )
    # The controller declares only the authorizer.
    variables = {name: type_ for name, type_ in declared.variables.items() if name != "authorizer.requestResource"}
    return Declarations(variables, declared.object_types)


def _params_type(policy: Policy, schemas: Schemas) -> SchemaType | None:
    if policy.param_kind is None:
        return None
    group, _, version = policy.param_kind.api_version.rpartition("/")
    kind = GroupVersionKind(group, version, policy.param_kind.kind)
    schema = schemas.schema_of(kind)
    # Types are compared by name, and a param may be of the kind that is checked.
    return None if schema is None else schema_type(schema, f"params.{kind.kind}")
