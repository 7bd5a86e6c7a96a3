"""What mutating policies would make of one recorded request, and why: the verdict of a replay, with the value of each expression.

Policies are shown in the order of their names. Where another order gives another object, the verdict says so.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace

from queries import LakeReader

from ...explaining.asked import Asked
from ...explaining.explanation import ExplainedExpression, ExplainedPolicy, Explanation, Fact, NotExplained
from ...explaining.missing import explained
from ...explaining.shown import Shown, condition_words, fields_of, framed, missing_of
from ...matching import Target
from ...policies.trace import trace_conditions, trace_expressions
from ...request import AdmissionRequest, Known, Unknown
from ...row import Row
from ..in_force import GivenChain
from .afterwards import Later
from .applying import Applied, Failed, Undecided
from .chain import Chain, Run
from .changes import changes
from .compiled import CompiledMutating
from .invocation import Key, Noticed
from .model import MutatingRules
from .orders import outcomes_of
from .verdicts import STAGE, recorded_of, verdicts_of
from .walk import Met, Walk
from .webhooks_between import as_stored, recorded_between

_CHANGES_MAX = 20
_VALUE_MAX = 100
_RANK = {"error": 0, "unknown": 1, "changed": 2, "unchanged": 3, "nomatch": 4}


def explain_mutating(reader: LakeReader, rules: MutatingRules | None, asked: Asked) -> list[Explanation | NotExplained]:
    """The explanation of each pass of the request, under given policies or (None) those that the log shows in force at its time."""
    chains = None if rules is None else GivenChain(Chain(rules, asked.version))
    walk = Walk(reader, asked.moment, chains, asked.version, asked.other_authorizers, reads_all=True)

    def judge(met: Met) -> Explanation | NotExplained:
        why = next((each.reason for each in (met.request, met.chains) if isinstance(each, Unknown)), met.unreached)
        if why or isinstance(met.request, Unknown) or isinstance(met.chains, Unknown):
            return NotExplained(asked.cluster, asked.audit_id, met.event.ts, why, explained(why).remedy)
        return _OfPass(met, met.request, met.chains[0], asked).explanation()

    wanted = (asked.cluster, asked.audit_id)
    return [each.verdict for each in walk.judged(judge) if (each.event.cluster, each.event.audit_id) == wanted]


class _OfPass:
    """Explains the policies of one pass of one request."""

    def __init__(self, met: Met, request: AdmissionRequest, chain: Chain, asked: Asked) -> None:
        self._met = met
        self._request = request
        self._chain = chain
        self._asked = asked
        self._shown = Shown(asked.redaction, request)
        self._steps: dict[Key, list[Noticed]] = {}

    def explanation(self) -> Explanation:
        """All policies; those that refuse or change the object come first."""
        met, request, chain, shown = self._met, self._request, self._chain, self._shown
        between, without = recorded_between(met, request.object)

        def notice(step: Noticed) -> None:
            self._steps.setdefault(step.key, []).append(step)

        Run(chain, request, met.world, met.authorize, between=between, notice=notice).outcome()
        outcomes = outcomes_of(chain, request, met.world, met.authorize, between)
        found = verdicts_of(outcomes, without, recorded_of(met.event), Later(), False, as_stored(met))
        rows = [each.row for each in found]
        entries = [self._entry(row) for row in rows if row.policy == STAGE or self._asked.wants(row.policy)]
        met_names = {row.policy for row in rows}
        entries += [
            self._without_rule(entry.policy)
            for entry in chain.set.entries
            if entry.policy.policy.name not in met_names
            and self._asked.wants(entry.policy.policy.name)
            and isinstance(entry.policy, CompiledMutating)
        ]
        entries.sort(key=lambda each: (each.policy != STAGE, _RANK[each.decision]))
        pieces = [shown.piece("object", request.object), shown.piece("oldObject", request.old_object)]
        return framed(met.event, request, 1, shown, pieces, entries, STAGE)

    def _without_rule(self, policy: CompiledMutating) -> ExplainedPolicy:
        entry = next(each for each in self._chain.set.entries if each.policy is policy)
        world = self._chain.set.given.over(self._met.world)
        match = entry.matcher.match(self._request, Target.of(self._request), world) if entry.matcher else None
        why = match.why if match is not None and match.matched is not True else "no binding of the policy matches the request"
        return ExplainedPolicy(policy.policy.name, None, (), "nomatch", "", False, "", why, "")

    def _entry(self, row: Row) -> ExplainedPolicy:
        key: Key = (row.policy, row.binding, row.param_namespace, row.param_name)
        steps = self._steps.get(key, [])
        conditions, mutations, variables = self._expressions(steps)
        detail = json.loads(row.detail or "{}")
        facts = [*self._results(steps), *self._whole(row, detail)]
        if flags := detail.get("flags"):
            facts.append(Fact("marks", ", ".join(flags)))
        decisive = [each for each in conditions if each.decision != "true"] or mutations
        return ExplainedPolicy(
            policy=row.policy,
            binding=row.binding,
            actions=(),
            decision=row.decision,
            effect=row.effect or "",
            rejects=row.effect == "deny",
            message=self._shown.text(row.message or ""),
            why=self._shown.text(row.why or ""),
            evidence=row.evidence,
            conditions=conditions,
            validations=mutations,
            variables=variables,
            fields=fields_of(decisive, variables),
            missing=missing_of([row.why or ""] if row.decision == "unknown" and row.why else []),
            facts=tuple(facts),
        )

    def _expressions(
        self, steps: Sequence[Noticed]
    ) -> tuple[tuple[ExplainedExpression, ...], tuple[ExplainedExpression, ...], tuple[ExplainedExpression, ...]]:
        """Match conditions, mutations and the variables that they read, of the first round and then of the second."""
        conditions: list[ExplainedExpression] = []
        mutations: list[ExplainedExpression] = []
        variables: dict[str, ExplainedExpression] = {}
        for step in steps:
            policy = step.case.policy
            assert isinstance(policy, CompiledMutating)
            again = ", second round" if step.round else ""
            if step.mutation is None:
                traced, read = trace_conditions(step.case)
                conditions += [_named(self._shown.expression(each, condition_words(each)), again) for each in traced]
            else:
                mutation = policy.mutations[step.mutation]
                field = f"mutations[{step.mutation}]"
                traced, read = trace_expressions(step.case, {field: mutation.expression}, mutation.roots)
                mutations += [_named(self._shown.expression(each, ""), again) for each in traced]
            for each in read:
                variables.setdefault(each.field, self._shown.expression(each, ""))
        return tuple(conditions), tuple(mutations), tuple(variables.values())

    def _results(self, steps: Sequence[Noticed]) -> Iterator[Fact]:
        """What each mutation did to the object."""
        for step in steps:
            if step.mutation is None:
                continue
            name = f"round {step.round + 1}"
            place = f"mutations[{step.mutation}]"
            match step.result:
                case Applied(after):
                    found = list(changes(step.before, after))
                    if not found:
                        yield Fact(name, f"{place} leaves the object as it is")
                    for each in found[:_CHANGES_MAX]:
                        yield Fact(name, f"{place}: {self._change(each.value)}")
                    if len(found) > _CHANGES_MAX:
                        yield Fact(name, f"{place}: {len(found) - _CHANGES_MAX} more changes")
                case Failed(message):
                    yield Fact(name, f"{place} fails: {self._shown.text(message)}")
                case Undecided(why):
                    yield Fact(name, f"{place}: unknown, {self._shown.text(why)}")
                case None:
                    pass
                case refusal:
                    yield Fact(name, f"{place} ends the request: {self._shown.text(refusal.message or 'the API server panics')}")

    def _change(self, change: dict[str, object]) -> str:
        def value(name: str) -> str:
            text = self._shown.text(json.dumps(change[name], ensure_ascii=False))
            return text if len(text) <= _VALUE_MAX else f"{text[: _VALUE_MAX - 1]}…"

        words = [f"{change['op']} {change['path']}"]
        words += [f"{value('before')} ->"] if "before" in change and "after" in change else []
        return " ".join([*words, value("after")] if "after" in change else words)

    def _whole(self, row: Row, detail: dict[str, object]) -> Iterator[Fact]:
        """What differs from the record, for the row of all policies together."""
        if row.policy != STAGE:
            return
        yield Fact("log", f"the recorded answer is {self._met.event.code}" + (f"; the outcome is {row.flip}" if row.flip else ""))
        if isinstance(self._request.object, Known) and row.decision == "unknown" and "differences" in detail:
            yield Fact("orders", "the policies leave different objects in different orders")


def _named(found: ExplainedExpression, again: str) -> ExplainedExpression:
    return replace(found, field=found.field + again) if again else found
