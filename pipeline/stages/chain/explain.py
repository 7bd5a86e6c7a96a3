"""The way of one recorded request through all stages of admission, step by step."""

from __future__ import annotations

import json
from collections.abc import Sequence

from queries import LakeReader

from ...explaining.asked import Asked
from ...explaining.explanation import ExplainedPolicy, Explanation, Fact, NotExplained
from ...explaining.missing import explained
from ...explaining.shown import Shown, framed, missing_of
from ...request import AdmissionRequest, Unknown
from ..mutating.walk import Met
from .answer import STAGE, Answer, Step
from .asking import judging_of
from .judging import ChainJudge
from .rules import ChainRules

_CHANGES_MAX = 20
_VALUE_CHARACTERS_MAX = 100


def explain_chain(reader: LakeReader, rules: ChainRules, asked: Asked) -> list[Explanation | NotExplained]:
    """Explain each pass of one request, under the folder and the policies in force at its time."""
    walk, judge = judging_of(reader, rules, asked.moment, asked.version, asked.other_authorizers)
    wanted = (asked.cluster, asked.audit_id)
    found = walk.judged(lambda met: _of_pass(met, judge, asked))
    return [each.verdict for each in found if (each.event.cluster, each.event.audit_id) == wanted]


def _of_pass(met: Met, judge: ChainJudge, asked: Asked) -> Explanation | NotExplained:
    steps: list[Step] = []
    judge.notice = steps.append
    answer, recorded = judge(met)
    request = met.request if isinstance(met.request, AdmissionRequest) else met.attempt
    if isinstance(request, Unknown):
        return NotExplained(asked.cluster, asked.audit_id, met.event.ts, request.reason, explained(request.reason).remedy)
    shown = Shown(asked.redaction, request)
    # The explanation shows the sent object once. Each step adds its own changes to it.
    pieces = [shown.piece("object", request.object), shown.piece("oldObject", request.old_object)]
    # Several orders of policies take the same steps.
    once = {(step.name, step.says, step.text, repr(step.changed)): step for step in steps}
    entries = [_entry(shown, step.name, step.says, step.text, step.changed) for step in once.values()]
    entries.append(_last(shown, answer, recorded))
    return framed(met.event, request, 1, shown, pieces, entries, STAGE)


def _last(shown: Shown, answer: Answer, recorded: Answer) -> ExplainedPolicy:
    """The answer itself, or the step at which it is not known."""
    same = answer.key == recorded.key and not answer.changed
    text = "as recorded" if same else ""
    passes = "changed" if answer.changed else "admit"
    decision = passes if answer.decision == "allow" else answer.decision
    entry = _entry(shown, answer.step or "answer", decision, text, answer.changed)
    facts = (*entry.facts, *((Fact("code", str(answer.code)),) if answer.code else ()))
    missing = missing_of([answer.why]) if answer.decision == "unknown" and answer.why else ()
    return ExplainedPolicy(
        policy=entry.policy,
        binding=None,
        actions=(),
        decision=decision,
        effect="deny" if answer.decision == "deny" else "",
        rejects=answer.decision == "deny",
        message=shown.text(answer.message or ""),
        why=shown.text(answer.why or text),
        evidence=str(answer.grade),
        missing=missing,
        facts=facts,
    )


def _entry(shown: Shown, name: str, says: str, text: str, changed: Sequence[dict[str, object]]) -> ExplainedPolicy:
    facts = [Fact(str(each["op"]), shown.text(_change(each))) for each in changed[:_CHANGES_MAX]]
    if len(changed) > _CHANGES_MAX:
        facts.append(Fact("and", f"{len(changed) - _CHANGES_MAX:,} more changes"))
    return ExplainedPolicy(name, None, (), says, "", False, "", shown.text(text), "exact", facts=tuple(facts))


def _change(change: dict[str, object]) -> str:
    values = [json.dumps(change[name], ensure_ascii=False) for name in ("before", "after") if name in change]
    text = f"{change['path']}: {' -> '.join(values)}"
    return text if len(text) <= _VALUE_CHARACTERS_MAX else f"{text[:_VALUE_CHARACTERS_MAX]}..."
