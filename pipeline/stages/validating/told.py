"""What the API server says after it judged: warnings to the client, and annotations of the audit event.

Follows kubernetes/apiserver pkg/admission/plugin/policy/validating/dispatcher.go.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence

from ...policies.model import Action
from ...policies.verdict import Decision, PolicyVerdict

RECORDED_FAILURES_MAX = 50
FAILURE_ANNOTATION = "validation.policy.admission.k8s.io/validation_failure"
ALL_FAILURES_SINCE = (1, 37)  # up to 1.36 each failure writes the key itself, and the first write wins

WARNINGS_RUNES_MAX = 4 * 1024  # of all warnings of one answer; above it each is cut at WARNING_RUNES_MAX
WARNING_RUNES_MAX = 256
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_QUOTED, _ESCAPED = re.compile(r'(["\\])'), r"\\\1"


def warning(verdict: PolicyVerdict) -> str:
    """The text of the Warning header."""
    return f"Validation failed for ValidatingAdmissionPolicy '{verdict.policy}' with binding '{verdict.binding}': {verdict.message}"


def warning_headers(verdicts: Iterable[PolicyVerdict]) -> list[str]:
    """The values of the Warning headers that policies send to the client.

    Follows kubernetes/apiserver pkg/endpoints/filters/warning.go. Each text appears once. A text with a control character, such as
    the line break of a long expression, never appears. If all texts together are too long, each is cut.
    """
    texts: list[str] = []
    shown: list[str] = []
    is_cut = False
    for text in dict.fromkeys(map(warning, warnings(verdicts))):
        if is_cut and sum(map(len, shown)) >= WARNINGS_RUNES_MAX:
            break
        texts.append(text)
        shown += _printable([text], is_cut)
        if not is_cut and sum(map(len, shown)) > WARNINGS_RUNES_MAX:
            is_cut = True
            shown = _printable(texts, is_cut)
    return [f'299 - "{_QUOTED.sub(_ESCAPED, text)}"' for text in shown]


def _printable(texts: Iterable[str], is_cut: bool) -> list[str]:
    cut = (text[:WARNING_RUNES_MAX] if is_cut else text for text in texts)
    return [text for text in cut if not _CONTROL.search(text)]


def denials(verdicts: Iterable[PolicyVerdict]) -> Iterator[PolicyVerdict]:
    """The verdicts that reject the request, each with its own message, in the order in which the server finds them.

    Within one evaluation the order is: validations, then audit annotations, whose error stands in the row of the whole.
    """
    last: list[PolicyVerdict] = []
    for verdict in verdicts:
        if verdict.expression_index is None:
            yield from last
            last = [verdict] if _denies(verdict) else []
        elif _denies(verdict):
            yield verdict
    yield from last


def _denies(verdict: PolicyVerdict) -> bool:
    return verdict.rejects and not verdict.is_summary


def warnings(verdicts: Iterable[PolicyVerdict]) -> Iterator[PolicyVerdict]:
    """The verdicts that send the client a warning."""
    return (verdict for verdict in _failures(verdicts) if Action.WARN in verdict.actions)


def audited(verdicts: Iterable[PolicyVerdict]) -> Iterator[PolicyVerdict]:
    """The verdicts that an audit event without a size limit would carry."""
    return (verdict for verdict in _failures(verdicts) if Action.AUDIT in verdict.actions)


def failure_annotation(verdicts: Iterable[PolicyVerdict], version: tuple[int, int]) -> str | None:
    """The value of FAILURE_ANNOTATION that a server of this version records; None if nothing was audited."""
    failures = [
        {
            "message": verdict.message,
            "policy": verdict.policy,
            "binding": verdict.binding,
            "expressionIndex": verdict.expression_index or 0,
            "validationActions": list(verdict.actions),
        }
        for verdict in audited(verdicts)
    ]
    if not failures:
        return None
    count = RECORDED_FAILURES_MAX if version >= ALL_FAILURES_SINCE else 1
    return _go_json(failures[:count])


def policy_annotations(verdicts: Sequence[PolicyVerdict]) -> dict[str, str]:
    """The audit annotations that policies declare, `POLICY/KEY`; distinct values of several bindings and params are joined."""
    values: dict[str, list[str]] = {}
    for verdict in verdicts:
        for key, value in verdict.audit_annotations.items():
            found = values.setdefault(f"{verdict.policy}/{key}", [])
            if value not in found:
                found.append(value)
    return {key: ", ".join(found) for key, found in values.items()}


def _failures(verdicts: Iterable[PolicyVerdict]) -> Iterator[PolicyVerdict]:
    for verdict in verdicts:
        if verdict.effect is Decision.DENY and not verdict.bypasses_actions and not verdict.is_summary:
            yield verdict


def _go_json(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
