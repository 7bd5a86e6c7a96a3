"""Revisions of verdicts change the passes that they name, and no others."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pipeline.row import Row
from pipeline.runs.merge import Merged
from pipeline.runs.revision import Replaced, Revision, Withdrawn
from pipeline.runs.verdict import VERDICT_VALUES
from pipeline.runs.verdicts import Pass, numbered

START = datetime(2026, 11, 20, tzinfo=UTC)


def row(policy: str, decision: str) -> Row:
    notes = [("note", "text")]
    return Row(policy, "bound", None, None, 0, decision, "admit", None, None, None, None, "exact", ["Deny"], notes, False, "toy")


def place(number: int) -> tuple[str, str, datetime, datetime, int]:
    moment = START + timedelta(seconds=number)
    return "default", f"request-{number}", moment, moment, 0


def told(merged: Merged) -> dict[Pass, list[dict[str, Any]]]:
    found: dict[Pass, list[dict[str, Any]]] = {}
    for table in merged.tables("run"):
        for each in table.to_pylist():
            key = (each["cluster"], each["audit_id"], each["ts"], each["pass"])
            found.setdefault(key, []).append({name: each[name] for name in VERDICT_VALUES.names})
    return found


@given(st.lists(st.lists(st.sampled_from(["admit", "deny"]), min_size=1, max_size=3), min_size=1, max_size=6), st.data())
def test_a_revision_changes_the_passes_that_it_names(decisions: list[list[str]], data: st.DataObject) -> None:
    parts = [[(place(number), [row(each, each) for each in found])] for number, found in enumerate(decisions)]
    made = [numbered(part)[0] for part in parts]
    before = told(Merged(made))
    other = [row("other", "deny")._asdict()]
    choice = st.sampled_from([None, Withdrawn("why"), Replaced.of(other, "team")])
    chosen = {key: data.draw(choice) for key in before}
    revisions: dict[Pass, Revision] = {key: each for key, each in chosen.items() if each is not None}
    merged = Merged(made)
    merged.revise(revisions)
    after = told(merged)
    assert after.keys() == before.keys()
    for key, found in after.items():
        match chosen[key]:
            case None:
                assert found == before[key]
            case Withdrawn(why):
                assert [(each["policy"], each["decision"], each["why"]) for each in found] == [
                    (each["policy"], "unknown", why) for each in before[key]
                ]
            case Replaced():
                assert [each["policy"] for each in found] == ["other"]
                assert found[0]["audit_annotations"] == [("note", "text")]
                assert found[0]["detail"] is None


def test_an_effect_that_differs_is_told() -> None:
    deny = row("a", "deny")._replace(effect="deny")
    merged = Merged([numbered([(place(0), [deny])])[0]])
    merged.revise({("default", "request-0", START, 0): Replaced.of([row("a", "admit")._asdict()], "team")})
    (rows,) = told(merged).values()
    assert [json.loads(each["detail"]) for each in rows] == [{"first": {"effect": "deny", "by": "team"}}]


def test_passes_with_a_verdict() -> None:
    merged = Merged([numbered([(place(0), [row("a", "deny")]), (place(1), [row("a", "admit")])])[0]])
    assert merged.passes_with(lambda found: found["decision"] == "deny") == [("default", "request-0", START, 0)]
    assert merged.passes_with(lambda found: found["decision"] == "error") == []
