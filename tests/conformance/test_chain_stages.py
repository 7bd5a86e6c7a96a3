"""What single stages say of objects that mutating policies of the same folder change, against the answers of a real server.

`../shared/data/chain-a`: see test_chain_answers.py. A row is wrong where the server let a request pass that the rule refuses, or
named the rule as the one that refuses, and the row says that it admits. Where the order of policies decides, nothing is compared.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from api.cli import run
from tests.conformance.test_chain_truth import chain_lake
from tests.recorded_files import rows_of

pytestmark = pytest.mark.conformance
__all__ = ["chain_lake"]

SETS = ("03-team-pair", "05-registry", "08-frozen", "15-level")
# Of later stages, whose refusal of a changed object is the mutation's own.
_OF_CHANGE = ("validation", "limit-range", "priority", "service-account")


def _refuses(row: Mapping[str, Any]) -> bool:
    enforced = row["bypasses_actions"] or "Deny" in row["actions"] or row["binding"] is None
    return row["effect"] == "deny" and enforced


def _of_rules(rows: list[Mapping[str, Any]], truth: Mapping[str, Any]) -> str:
    """How the rows of one policy, or of one level, on one request stand to the server's answer."""
    if any(_refuses(row) for row in rows):
        return "right" if truth["decision"] == "deny" else "refuses a request that the server admits"
    names = {f"validating-policy:{row['policy']}" for row in rows} | {row["stage"] for row in rows}
    if truth.get("decidedBy") not in names:
        return "right"
    return "unknown" if any(row["decision"] == "unknown" for row in rows) else "admits what it refused"


def _of_mutation(row: Mapping[str, Any], truth: Mapping[str, Any]) -> str:
    """The same of the row of a request as a whole."""
    later = "later" in json.loads(row["detail"] or "{}")
    if row["decision"] == "unknown":
        return "unknown"
    if later or row["effect"] == "deny":
        return "right" if truth["decision"] == "deny" else "refuses a request that the server admits"
    is_by_mutation = truth.get("decidedBy") in _OF_CHANGE and row["flip"] is not None
    return "admits what it made invalid" if is_by_mutation else "right"


@pytest.mark.parametrize("name", SETS)
def test_stages_judge_what_mutation_leaves(shared: Path, chain_lake: Path, tmp_path: Path, name: str) -> None:
    source, out = shared / "data" / "chain-a", tmp_path / "rows.parquet"
    words = ["-q", "--lake", str(chain_lake), "replay", "-f", str(source / "sets" / name), "--kubernetes-version", "1.36"]
    assert run([*words, "--export", str(out)]) == 0
    truth = {each["auditID"]: each for each in rows_of(source / "truth.jsonl.zst") if each["set"] == name}
    by_rule: dict[tuple[str, str, str], list[Any]] = {}
    for row in pq.read_table(out).to_pylist():
        told = truth.get(row["audit_id"])
        if told is not None and not told.get("orderDependent") and row["policy"] is not None:
            rule = "" if row["stage"] == "pod-security" else row["policy"]
            by_rule.setdefault((row["audit_id"], row["stage"], rule), []).append(row)
    found: Counter[str] = Counter()
    for (audit_id, stage, rule), rows in by_rule.items():
        if stage != "mutating":
            found[f"{stage}: {_of_rules(rows, truth[audit_id])}"] += 1
        elif rule == "mutating":
            found[f"{stage}: {_of_mutation(rows[0], truth[audit_id])}"] += 1
    wrong = {what: count for what, count in found.items() if not what.endswith((": right", ": unknown"))}
    assert not wrong
    # Unknown are refusals before mutation, and applies whose fields the log does not show.
    assert found["mutating: right"] > found["mutating: unknown"]


@pytest.mark.parametrize(
    ("name", "policy", "finding"),
    [
        ("01-harden", "harden-pods", "refused by the built-in validation: "),
        ("03-team-pair", "need-team", "needs add-team: it admits "),
        ("10-fight", "to-east", "the result depends on the order of to-east and second, to-west"),
        ("15-level", "restricted:latest", "needs level-safe: it admits "),
    ],
)
def test_readiness_names_manifests_that_need_or_fight_each_other(
    shared: Path, chain_lake: Path, capsys: pytest.CaptureFixture[str], name: str, policy: str, finding: str
) -> None:
    folder = str(shared / "data" / "chain-a" / "sets" / name)
    capsys.readouterr()
    assert run(["-q", "--lake", str(chain_lake), "readiness", "--no-exemptions", "-f", folder, "-o", "json"]) == 0
    (reasons,) = (each["reasons"] for each in json.loads(capsys.readouterr().out)["policies"] if each["policy"] == policy)
    # Each names a request that shows it.
    (told,) = (each for each in reasons if finding in each)
    assert re.search(r"[0-9a-f]{8}-[0-9a-f]{4}-", told)


def test_stages_together_refuse_what_the_server_refuses(shared: Path, chain_lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, name = shared / "data" / "chain-a", "05-registry"
    words = ["-q", "--lake", str(chain_lake), "readiness", "--no-exemptions", "-f", str(source / "sets" / name), "-o", "json"]
    capsys.readouterr()
    assert run(words) == 0
    together = json.loads(capsys.readouterr().out)["together"]
    assert sum(each["requests"] for each in together["first"]) == together["refused"]
    passed = {each["auditID"] for each in rows_of(source / "requests.jsonl.zst") if each["code"] < 300}
    told = [each for each in rows_of(source / "truth.jsonl.zst") if each["set"] == name and each["auditID"] in passed]
    newly = sum(each["decision"] == "deny" for each in told)
    # Writes of controllers have no rows in the truth, and are counted too.
    assert newly - together["unknown"] <= together["refused"] <= newly + together["unknown"] + 30


def test_what_no_rule_of_the_validation_knows_is_said_once(
    shared: Path, chain_lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    folder = str(shared / "data" / "chain-a" / "sets" / "14-old")
    assert run(["-q", "--lake", str(chain_lake), "replay", "--chain", "-f", folder]) == 0
    rows = capsys.readouterr().out.partition("Changed fields that Hindcast does not validate\n")[2].splitlines()
    assert [line.split()[:2] for line in rows[1:3]] == [["pods/ephemeralcontainers", "spec"], ["deployments.apps", "status"]]


@pytest.mark.parametrize(("name", "stage"), [("05-registry", "validating"), ("15-level", "pod-security")])
def test_an_explanation_is_of_the_object_that_was_judged(
    shared: Path, chain_lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, stage: str
) -> None:
    """Of requests whose verdict mutation turns, and of some that are not known: each says what the replay says."""
    folder, out = str(shared / "data" / "chain-a" / "sets" / name), tmp_path / "rows.parquet"
    ask = ["-q", "--lake", str(chain_lake)]
    assert run([*ask, "replay", "-f", folder, "--kubernetes-version", "1.36", "--export", str(out)]) == 0
    rows = [row for row in pq.read_table(out).to_pylist() if row["stage"] == stage and row["policy"] is not None]
    turned = [row["audit_id"] for row in rows if "first" in json.loads(row["detail"] or "{}")]
    unknown = [row["audit_id"] for row in rows if row["decision"] == "unknown"]
    for audit_id in [*dict.fromkeys(turned)][:3] + [*dict.fromkeys(unknown)][:1]:
        capsys.readouterr()
        assert run([*ask, "explain", audit_id, "-f", folder, "--kubernetes-version", "1.36", "-o", "json"]) == 0
        made = json.loads(capsys.readouterr().out)["explanations"]
        told = {(each["policy"], each["binding"]): each["decision"] for one in made for each in one["policies"]}
        own = {(row["policy"], row["binding"]): row["decision"] for row in rows if row["audit_id"] == audit_id}
        if stage == "validating":
            whole = [row for row in rows if row["audit_id"] == audit_id and row["expression_index"] is None]
            own = {(row["policy"], row["binding"]): row["decision"] for row in whole}
        assert own
        assert {key: told.get(key) for key in own} == own
