"""The answers of a real server to writes under sets of manifests, and those of the chain.

`../shared/data/chain-a` has each write of a story as a dry run under each of 15 sets; its README has the contract of an answer.
A row is right if the decision, the code, who decided and the words are those of the server. Of some refusals the server prints a
value as its own code has it; there only the beginning of the words is known, and the row says so.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq
import pytest

from pipeline.manifests.files import manifests_of, texts_of
from pipeline.runs import RunStore
from pipeline.stages.registry import CHAIN
from pipeline.stages.stage import Asked
from queries import open_lake
from tests.conformance.test_chain_truth import chain_lake
from tests.recorded_files import rows_of

pytestmark = pytest.mark.conformance
__all__ = ["chain_lake"]

# A change that lowers one of the first numbers, or raises one of the others, must say why.
RIGHT_MIN, OBJECTS_MIN, UNKNOWN_MAX = 18_400, 2_225, 125
_SERVERS_OWN = ("uid", "resourceVersion", "creationTimestamp", "managedFields")
_ADDRESSES = ("clusterIP", "clusterIPs")


class Compared(NamedTuple):
    """What became of a row, and of its object; empty where none is compared."""

    row: str
    thing: str
    where: str


def answers(lake: Path, folder: Path) -> dict[str, dict[str, Any]]:
    """The row of each request under a set, by its audit ID."""
    rules = CHAIN.read(manifests_of(list(texts_of([folder]))))
    with closing(open_lake(lake)) as reader:
        plan = CHAIN.plan(reader, rules, Asked(kubernetes_version=(1, 36), with_objects=True))
    CHAIN.run(plan, lake)
    rows = pq.read_table(RunStore(lake).run(plan.run_id).verdicts).to_pylist()
    return {row["audit_id"]: {**row, "detail": json.loads(row["detail"] or "{}")} for row in rows}


def words(text: str | None, generated: str | None) -> str:
    """A message without what the server draws by lot: the ends of names."""
    plain = re.sub(r"[\s\u00a0]+", " ", text or "").strip()
    return re.sub(re.escape(generated) + r"[a-z0-9*]{5}", f"{generated}*****", plain) if generated else plain


def thing(value: Mapping[str, Any], generated: str | None) -> Any:
    """An object without what the server draws by lot."""
    uid = (value.get("metadata") or {}).get("uid")
    text = re.sub(r"kube-api-access-[a-z0-9]{5}", "kube-api-access-*****", json.dumps(value))
    text = re.sub(re.escape(generated) + r"[a-z0-9]{5}\b", f"{generated}*****", text) if generated else text
    found = json.loads(text.replace(uid, "UID") if uid else text)
    metadata = {name: each for name, each in found["metadata"].items() if name not in _SERVERS_OWN}
    if found.get("kind") == "Service":
        found["spec"] = {name: each for name, each in found["spec"].items() if name not in _ADDRESSES}
    return {**found, "metadata": metadata}


def compared(answer: dict[str, Any] | None, truth: Mapping[str, Any]) -> Compared:
    """One row against what the server answered; where the order of policies decides, against each answer that was seen."""
    told = [truth, *(truth.get("orderDependent") or ())]
    where = f"{truth['set']} {truth['auditID']}"
    if answer is None or answer["decision"] == "unknown":
        is_open = len({each["decision"] for each in told}) > 1
        return Compared("right" if is_open else "unknown", "", where)
    found = [_result(answer, each, truth.get("generateName")) for each in told]
    best = next((each for each in ("right", "words in part") if each in found), found[0])
    return Compared(best, _of_object(answer, told, truth) if best == "right" else "", where)


def _result(answer: Mapping[str, Any], truth: Mapping[str, Any], generated: str | None) -> str:
    if answer["decision"] != truth["decision"] or answer["code"] != truth["code"]:
        return f"wrong: {answer['decision']} {answer['code']}, and the server {truth['decision']} {truth['code']}"
    if answer["decision"] == "allow":
        return "right"
    if answer["detail"].get("decided_by") != truth["decidedBy"]:
        return f"wrong: by {answer['detail'].get('decided_by')}, and not by {truth['decidedBy']}"
    if words(answer["message"], generated) == words(truth["message"], generated):
        return "right"
    return "words in part" if answer["why"] else f"wrong words: {answer['message']}"


def _of_object(answer: Mapping[str, Any], told: list[Mapping[str, Any]], truth: Mapping[str, Any]) -> str:
    expected = [each["object"] for each in told if each.get("object")]
    own = answer["detail"].get("object")
    if answer["decision"] != "allow" or not expected or truth.get("orderDependent"):
        return ""
    if own is None:
        return "none"
    generated = truth.get("generateName")
    return "right" if any(thing(own, generated) == thing(each, generated) for each in expected) else "wrong"


def every(shared: Path, lake: Path) -> Iterator[Compared]:
    source = shared / "data" / "chain-a"
    truth: dict[str, list[Any]] = {}
    for row in rows_of(source / "truth.jsonl.zst"):
        truth.setdefault(row["set"], []).append(row)
    for folder in sorted((source / "sets").iterdir()):
        found = answers(lake, folder)
        yield from (compared(found.get(row["auditID"]), row) for row in truth[folder.name])


def test_the_answers_are_those_of_the_server(shared: Path, chain_lake: Path) -> None:
    found = list(every(shared, chain_lake))
    counts = Counter(each.row.partition(":")[0] for each in found)
    objects = Counter(each.thing for each in found if each.thing)
    wrong = [f"{each.where}: {each.row}" for each in found if each.row.startswith("wrong")]
    print(counts, objects)
    assert wrong == []
    assert counts["right"] >= RIGHT_MIN
    assert counts["unknown"] <= UNKNOWN_MAX
    assert counts["words in part"] == 0
    assert objects["right"] >= OBJECTS_MIN
    assert objects["wrong"] == 0
