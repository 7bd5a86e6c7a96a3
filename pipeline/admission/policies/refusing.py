"""What makes an API server refuse the write of a policy: expressions that do not compile for a policy that is new.

Follows ValidateValidatingAdmissionPolicy of kubernetes/kubernetes pkg/apis/admissionregistration/validation/validation.go.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace

from ...cel.stack import on_fresh_stack
from ...cel.versions import before, differs_for_new
from .compile import MATCH_CONDITION, CompiledExpression, CompiledPolicy, Compiler, Version, compile_policy
from .model import Policy


def refused_expressions(
    policy: Policy, version: Version, stored: Callable[[], Collection[Policy]] = tuple
) -> tuple[CompiledExpression, ...]:
    """The expressions that make an API server of this version reject the write of a policy, because they do not compile.

    The server compiles new expressions with the CEL of the minor before, and those of the stored policy with its own. `stored`
    finds known versions of that policy, and is asked only where this decides. Without any, a policy with a resourceVersion was
    read from a server, which has all of it. For a new policy, the server compiles match conditions without `variables`. For a
    stored policy, match conditions can use them.
    """
    compiled = compile_policy(policy, version)
    alone = Compiler(replace(policy, variables=()), version)
    conditions = (alone.named(each, MATCH_CONDITION) for each in policy.match_conditions)
    composed = tuple(
        replace(each, error=f"a match condition has no variables: {each.error}")
        for each, held in zip(conditions, compiled.match_conditions, strict=True)
        if each.program is None and held.program is not None
    )
    return (*compiled.errors, *composed, *_too_new(policy, version, compiled, stored))


def _too_new(
    policy: Policy, version: Version, compiled: CompiledPolicy, stored: Callable[[], Collection[Policy]]
) -> Iterator[CompiledExpression]:
    """The expressions that compile only if they are stored already, with the server's words and the reason."""
    if compiled.defect or not differs_for_new(version):
        return
    pairs = zip(_by_field(compiled), _by_field(_new_programs(policy, version)), strict=True)
    refused = [(name, new) for (name, old), (_, new) in pairs if old.program is not None and new.program is None]
    if not refused:
        return
    versions = stored()
    if policy.resource_version and not versions:
        return
    known = {(name, each.text) for one in versions for name, each in _by_field(compile_policy(one, version))}
    server, earlier = (f"{major}.{minor}" for major, minor in (version, before(version)))
    why = f"a server of {server} compiles new expressions with the CEL of {earlier}, and only stored ones with its own"
    for name, each in refused:
        if (name, each.text) not in known:
            yield replace(each, error=f"{each.error}\n{why}")


def _new_programs(policy: Policy, version: Version) -> CompiledPolicy:
    return on_fresh_stack(lambda: CompiledPolicy(policy, version, for_new=True))


def _by_field(compiled: CompiledPolicy) -> Iterator[tuple[str, CompiledExpression]]:
    """Every expression with the name of its field: an API server compares expressions field by field."""
    yield from (("variables", each) for each in compiled.variables.values())
    yield from (("matchConditions", each) for each in compiled.match_conditions)
    yield from (("validations", each.expression) for each in compiled.validations)
    yield from (("messageExpression", each.message) for each in compiled.validations if each.message)
    yield from (("auditAnnotations", each) for each in compiled.audit_annotations)
