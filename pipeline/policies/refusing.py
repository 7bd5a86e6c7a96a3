"""What makes an API server refuse the write of an object with expressions: those that do not compile where they are new.

Follows kubernetes/kubernetes pkg/apis/admissionregistration/validation/validation.go, for policies of both kinds and webhooks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from ingest.errors import InputError

from ..cel.stack import on_fresh_stack
from ..cel.versions import differs_for_new, why_refused
from .compile import MATCH_CONDITION, CompiledExpression, CompiledPolicy, Compiler, Version, compiled_by
from .model import Policy

PolicyT = TypeVar("PolicyT")
_PROBLEMS_SHOWN = 20


def refused_expressions(
    policy: Policy, version: Version, stored: Callable[[], Collection[Policy]] = tuple
) -> tuple[CompiledExpression, ...]:
    """The expressions that make an API server of this version reject the write of a validating policy: they do not compile.

    See `too_new` for `stored`. For a new policy, the server compiles match conditions without `variables`. For a stored
    policy, match conditions can use them.
    """
    compiled = compiled_by(CompiledPolicy, policy, version)
    alone = Compiler(replace(policy, variables=()), version)
    conditions = (alone.named(each, MATCH_CONDITION) for each in policy.match_conditions)
    composed = tuple(
        replace(each, error=f"a match condition has no variables: {each.error}")
        for each, held in zip(conditions, compiled.match_conditions, strict=True)
        if each.program is None and held.program is not None
    )
    return (*compiled.errors, *composed, *too_new(CompiledPolicy, policy, version, stored, bool(policy.resource_version)))


def too_new(
    kind: Callable[..., CompiledPolicy],
    policy: PolicyT,
    version: Version,
    stored: Callable[[], Collection[PolicyT]],
    was_read: bool,
) -> Iterator[CompiledExpression]:
    """The expressions that compile only if they are stored already, with the server's words and the reason.

    The server compiles new expressions with the CEL of the minor before, and those of the stored policy with its own. `stored`
    finds known versions of that policy, and is asked only where this decides. Without any, a policy that `was_read` from a server
    is stored there, with all of it. `kind` is the class that compiles such a policy.
    """
    if not differs_for_new(version):
        return
    compiled = compiled_by(kind, policy, version)
    if compiled.defect:
        return
    new = on_fresh_stack(lambda: kind(policy, version, for_new=True))
    pairs = zip(compiled.by_field(), new.by_field(), strict=True)
    refused = [(name, one) for (name, old), (_, one) in pairs if old.program is not None and one.program is None]
    if not refused:
        return
    versions = stored()
    if was_read and not versions:
        return
    known = {(name, each.text) for one in versions for name, each in compiled_by(kind, one, version).by_field()}
    for name, each in refused:
        if (name, each.text) not in known:
            yield replace(each, error=f"{each.error}\n{why_refused(version)}")


def refuse_errors(errors: Sequence[tuple[str, str]]) -> None:
    """Raise InputError with file and line of each expression, and its error, if there is any."""
    if errors:
        lines = [f"{source}: {error}" for source, error in errors[:_PROBLEMS_SHOWN]]
        if len(errors) > _PROBLEMS_SHOWN:
            lines.append(f"and {len(errors) - _PROBLEMS_SHOWN:,} more expressions that do not compile")
        raise InputError("\n".join(lines))
