"""What speaks against mutating policies, apart from denials: changes that do not last, that repeat, or that depend on an order."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from queries import LakeReader

from ..chain.answer import POD_SECURITY, VALIDATING, VALIDATION
from ..readiness import Objection
from .model import MutatingPolicy, MutatingRules, ReinvocationPolicy
from .sql import statement

_VALUE_CHARACTERS_MAX = 80


class Flagged(NamedTuple):
    """Requests of one policy and binding with one flag; see sql/objections.sql."""

    policy: str
    binding: str | None
    flag: str
    requests: int
    example: str
    path: str | None
    before: str | None
    after: str | None
    others: Sequence[str]

    @property
    def shown(self) -> str:
        """The changed place of the latest request."""
        if self.path is None:
            return f"latest in request {self.example}"
        before, after = (_short(each) if each is not None else "absent" for each in (self.before, self.after))
        return f"for example {self.path}: {before} becomes {after} in request {self.example}"


def objections(reader: LakeReader, verdicts: Path, rules: MutatingRules | None) -> Sequence[Objection]:
    """The objections to the policies of a run. Without `rules` a policy is taken to meet its own result again."""
    rows = reader.connection.execute(statement("objections"), {"verdicts": str(verdicts)}).fetchall()
    by_name = {policy.name: policy for policy in rules.policies} if rules is not None else {}
    given = {each.name for each in rules.later.policies} if rules is not None else set()
    return tuple(each for row in rows for each in _objections(Flagged(*row), by_name.get(row[0]), given))


def _objections(row: Flagged, policy: MutatingPolicy | None, given: Collection[str]) -> Iterator[Objection]:
    many = f"{row.requests:,} {'request' if row.requests == 1 else 'requests'}"
    if row.flag == "not-idempotent":
        decides = policy is None or _sees_itself(policy)
        more = "" if decides else "; it matches no update, so it does not meet its own result"
        yield _of(row, f"not idempotent: of {many} the policy changes its own result again{more}; {row.shown}", decides)
    elif row.flag == "order-dependent":
        others = ", ".join(each for each in row.others if each != row.policy)
        order = f"order of {row.policy} and {others}" if others else "undefined order of policies"
        more = ", which the API server does not define" if others else ""
        yield _of(row, f"order decides: of {many} the result depends on the {order}{more}; {row.shown}", True)
    elif row.flag == "orders-not-tried":
        yield _of(
            row, f"orders not tried: of {many} the policy ran in some of the possible orders, with one result; {row.shown}", False
        )
    elif row.flag == "lost-on-reapply" and policy is not None and not _matches(policy, "UPDATE"):
        text = f"lost on reapply: of {many} a later write without the added field removes it, for the policy matches no update"
        yield _of(row, f"{text}; {row.shown}", False)
    elif row.flag.startswith("refused:"):
        yield _of(
            row, f"refused by {_step(row.flag.removeprefix('refused:'), given)}: {many} with what it changes; {row.shown}", False
        )
    elif row.flag.startswith("fight:"):
        user = row.flag.removeprefix("fight:")
        text = f"fight: {user} writes values again and again on one object that the policy changes each time"
        yield _of(row, f"{text} ({many}); {row.shown}", False)


def _step(step: str, given: Collection[str]) -> str:
    """A step of the chain, in words."""
    kind, _, name = step.partition(":")
    if kind == VALIDATING:
        return f"{name}, which was given with it" if name in given else f"policy {name}, which is in force"
    return {VALIDATION: "the built-in validation", POD_SECURITY: "Pod Security"}.get(kind, f"the step {step}")


def _of(row: Flagged, text: str, decides: bool) -> Objection:
    return Objection(row.policy, row.binding, text, decides)


def _sees_itself(policy: MutatingPolicy) -> bool:
    return policy.reinvocation is ReinvocationPolicy.IF_NEEDED or _matches(policy, "UPDATE")


def _matches(policy: MutatingPolicy, operation: str) -> bool:
    constraints = policy.rules.match_constraints
    rules = constraints.resource_rules if constraints is not None else ()
    return any({operation, "*"} & set(map(str, rule.operations)) for rule in rules)


def _short(text: str) -> str:
    return text if len(text) <= _VALUE_CHARACTERS_MAX else f"{text[: _VALUE_CHARACTERS_MAX - 3]}..."
