"""The exact admission inputs that a live control plane recorded, evaluated again and compared with what it decided.

`../shared/data/control-plane-a`: trace.jsonl.zst has the inputs of every admission pass, truth.jsonl.zst the decisions. What the
trace only names by resourceVersion (policies, bindings, params, namespaces) is taken from the audit log and the snapshots, as are
roles and their bindings.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import zstandard

from pipeline.authorization import OtherAuthorizers, RecordedRbac
from pipeline.policies.dispatch import CompiledSet, compile_set, evaluate_request
from pipeline.policies.model import PolicySet
from pipeline.policies.verdict import PolicyVerdict
from pipeline.request import (
    AdmissionRequest,
    Evidence,
    GroupVersionKind,
    GroupVersionResource,
    Known,
    Object,
    Operation,
    Unknown,
    UserInfo,
)
from pipeline.requests.past import load_history
from pipeline.runs.window import Window
from pipeline.stages.validating.decode import binding_from_object, policy_from_object
from queries import open_lake
from tests.recorded_files import rows_of
from tests.yaml_text import load_yaml

pytestmark = pytest.mark.conformance

DISAGREEMENTS = Path(__file__).parent / "trace_truth_disagreements.yaml"


class Recording:
    """Every object version that the recording has, by (kind, namespace, name, resourceVersion), and by time."""

    def __init__(self, folder: Path) -> None:
        self.versions: dict[tuple[str, str, str, str], Object] = {}
        self.namespaces: dict[str, list[tuple[str, Object]]] = defaultdict(list)
        for event in rows_of(folder / "audit.jsonl.zst"):
            body = event.get("responseObject")
            if event["stage"] == "ResponseComplete" and body and body.get("metadata", {}).get("resourceVersion"):
                self._add(body, event["stageTimestamp"])
        for file in sorted((folder / "snapshots").glob("*/*.json.zst")):
            for listed in read_json(file).get("items", ()):
                self._add(listed, None)
        for found in self.namespaces.values():
            found.sort(key=lambda item: item[0])

    def _add(self, obj: Object, time: str | None) -> None:
        metadata = obj["metadata"]
        key = (obj.get("kind", ""), metadata.get("namespace", ""), metadata.get("name", ""), metadata["resourceVersion"])
        self.versions.setdefault(key, obj)
        if obj.get("kind") == "Namespace" and time:
            self.namespaces[metadata["name"]].append((time, obj))


def read_json(path: Path) -> Any:
    return json.loads(zstandard.ZstdDecompressor().decompress(path.read_bytes(), max_output_size=1 << 30))


class TraceWorld:
    """The world as one pass met it: what the trace names by resourceVersion, else the latest version before it."""

    def __init__(self, recording: Recording, line: Mapping[str, Any], policy: Mapping[str, Any]) -> None:
        self.recording = recording
        self.line = line
        self.bindings = policy.get("bindings") or []
        self.chosen = [param for binding in self.bindings for param in binding.get("params") or () if not param.get("null")]

    def namespace(self, name: str) -> Evidence[Object | None]:
        for binding in self.bindings:
            found = self.recording.versions.get(("Namespace", "", name, binding.get("namespaceRV", "")))
            if found:
                return Known(found, "trace")
        earlier = [obj for time, obj in self.recording.namespaces.get(name, ()) if time <= self.line["time"]]
        return Known(earlier[-1], "log") if earlier else Unknown(f"namespace {name}")

    def param(self, api_version: str, kind: str, namespace: str, name: str) -> Evidence[Object | None]:
        if kind == "CustomResourceDefinition":
            return Known(self._latest(kind, "", name), "snapshot")
        found = [self._version(kind, param) for param in self.chosen if _key(param) == (namespace, name)]
        return Known(found[0], "trace") if found else Known(None, "trace")

    def params(self, api_version: str, kind: str, namespace: str) -> Evidence[Sequence[Object]]:
        names = {_key(param): self._version(kind, param) for param in self.chosen if param.get("namespace", "") == namespace}
        return Known([names[key] for key in sorted(names)], "trace")

    def kind_is_namespaced(self, api_version: str, kind: str) -> Evidence[bool | None]:
        scopes = {"ConfigMap": True, "Node": False, "ReplicaLimit": False}
        return Known(scopes.get(kind), "known of this recording")

    def _version(self, kind: str, param: Mapping[str, str]) -> Object:
        return self.recording.versions[kind, param.get("namespace", ""), param["name"], param["rv"]]

    def _latest(self, kind: str, namespace: str, name: str) -> Object | None:
        found = [obj for key, obj in self.recording.versions.items() if key[:3] == (kind, namespace, name)]
        return found[-1] if found else None


def _key(param: Mapping[str, Any]) -> tuple[str, str]:
    return param.get("namespace", ""), param["name"]


def request_of(line: Mapping[str, Any], pass_index: int) -> AdmissionRequest:
    obj, old, user = line.get("object"), line.get("oldObject"), line["userInfo"]
    group, _, version = ((obj or old or {}).get("apiVersion") or f"{line['group']}/{line['version']}").rpartition("/")
    return AdmissionRequest(
        cluster="control-plane-a",
        audit_id=line["auditID"],
        pass_index=pass_index,
        ts=datetime.fromisoformat(line["time"]),
        operation=Operation(line["operation"]),
        kind=Known(GroupVersionKind(group, version, line["kind"]), "trace"),
        resource=GroupVersionResource(line["group"], line["version"], line["resource"]),
        subresource=line.get("subResource", ""),
        namespace=line.get("namespace", ""),
        name=Known(line.get("name", ""), "trace"),
        user=UserInfo(user["username"], user["uid"], tuple(user["groups"]), user["extra"] or {}),
        dry_run=line["dryRun"],
        options=Known(line.get("options"), "trace"),
        object=Known(obj, "trace"),
        old_object=Known(old, "trace"),
    )


class Replay:
    """Evaluates the policies of the trace, each with the bindings of that moment, and compiles each combination once."""

    def __init__(self, recording: Recording, rbac: RecordedRbac) -> None:
        self.recording = recording
        self.rbac = rbac
        self._sets: dict[tuple[Any, ...], CompiledSet] = {}

    def rows(self, line: Mapping[str, Any], request: AdmissionRequest, policy: Mapping[str, Any]) -> list[PolicyVerdict]:
        authorize = partial(self.rbac.authorize, "lab", request.ts)
        return evaluate_request(self._set(policy), request, TraceWorld(self.recording, line, policy), authorize)

    def _set(self, policy: Mapping[str, Any]) -> CompiledSet:
        bindings = policy.get("bindings") or []
        key = (policy["policy"], policy["rv"], *((binding["binding"], binding["rv"]) for binding in bindings))
        if key not in self._sets:
            versions = self.recording.versions
            compiled = policy_from_object(versions["ValidatingAdmissionPolicy", "", policy["policy"], policy["rv"]], "log")
            bound = [versions["ValidatingAdmissionPolicyBinding", "", each["binding"], each["rv"]] for each in bindings]
            # The trace does not name the bindings of policies that did not match; evaluation without a binding stands in for them.
            self._sets[key] = compile_set(PolicySet((compiled,), tuple(binding_from_object(each, "log") for each in bound)))
        return self._sets[key]


Key = tuple[str, str | None, str | None, str | None, int | None]
Facts = dict[str, Any]


def recorded(row: Mapping[str, Any]) -> tuple[Key, Facts]:
    """One row of truth.jsonl as a key and what is compared."""
    param = row["param"] or {}
    key = (row["policy"], row["binding"], param.get("namespace"), param.get("name"), row["expressionIndex"])
    facts = {name: row.get(name) for name in ("decision", "effect", "message", "reason")}
    if row["expressionIndex"] is None:
        facts["audit_annotations"] = row["auditAnnotations"]
        facts["annotation_errors"] = sorted((row.get("annotationErrors") or {}).items())
    return key, facts


def evaluated(rows: Sequence[PolicyVerdict]) -> Iterator[tuple[Key, Facts]]:
    """Our rows in the form of the truth, which differs in two places.

    It gives a decision that stands for all expressions to the expression 0, as the server's annotation does, and it keeps errors of
    audit annotations apart from the decision on the whole.
    """
    decisions = [row for row in rows if row.expression_index is not None]
    for row in rows:
        key = row[:5]
        facts: Facts = {
            "decision": str(row.decision),
            "effect": row.effect and str(row.effect),
            "message": row.message,
            "reason": row.reason,
        }
        if row.expression_index is None:
            facts |= {"audit_annotations": dict(row.audit_annotations), "annotation_errors": annotation_errors(row.why)}
            if facts["annotation_errors"] and row.bypasses_actions:
                own = [each for each in decisions if each[1:4] == row[1:4]]
                facts |= {"message": "", **worst(own)}
            elif row.decision == "error" and row.why.startswith(("matchConditions", "validations", "auditAnnotations")):
                first = {name: facts[name] for name in ("decision", "effect", "message", "reason")}
                yield (*key[:4], 0), first
                facts["message"] = ""
        yield key, facts


def annotation_errors(why: str) -> list[tuple[str, str]]:
    """`auditAnnotation KEY: TEXT; ...` of a row of the whole."""
    parts = why.split("auditAnnotation ")[1:]
    return sorted(tuple(part.removesuffix("; ").split(": ", 1)) for part in parts)  # type: ignore[misc]


def worst(rows: Sequence[PolicyVerdict]) -> Facts:
    """How the truth sums up decisions: an error only if its effect is that of the whole."""
    effect = "deny" if any(row.effect == "deny" for row in rows) else "admit"
    is_error = any(row.decision == "error" and row.effect == effect for row in rows)
    return {"decision": "error" if is_error else effect, "effect": effect}


class Listed:
    """The disagreements that are known, each with its reason."""

    def __init__(self) -> None:
        self.entries = load_yaml(DISAGREEMENTS.read_text())
        self.counts: Counter[str] = Counter()

    def find(self, seq: int, key: Key) -> tuple[str, list[str]] | None:
        """The reason why a row may differ, and the facts in which it may; all if none are listed."""
        for entry in self.entries:
            if entry["policy"] == key[0] and entry.get("expression", key[4]) == key[4] and seq in entry.get("seq", [seq]):
                return str(entry["reason"]), entry.get("differs", [])
        return None


@pytest.fixture(scope="module")
def rbac(recorded_lake: Path) -> RecordedRbac:
    """Roles and bindings as each request met them. This server saw their changes at once: see test_rbac_truth.py."""
    reader = open_lake(recorded_lake)
    history = load_history(reader, (), Window())
    reader.close()
    return RecordedRbac(history, {"lab": OtherAuthorizers.NODE}, timedelta())


def test_every_recorded_decision_is_made_again(shared: Path, rbac: RecordedRbac, capsys: pytest.CaptureFixture[str]) -> None:
    folder = shared / "data" / "control-plane-a"
    recording = Recording(folder)
    replay, listed = Replay(recording, rbac), Listed()
    truth: dict[int, dict[Key, Facts]] = defaultdict(dict)
    for row in rows_of(folder / "truth.jsonl.zst"):
        key, facts = recorded(row)
        truth[row["seq"]][key] = facts
    agreed: Counter[str] = Counter()
    explained: Counter[str] = Counter()
    problems: list[str] = []
    for line in rows_of(folder / "trace.jsonl.zst"):
        request = request_of(line, 0)
        found: dict[Key, Facts] = {}
        for policy in line.get("policies") or ():
            rows = replay.rows(line, request, policy)
            if policy["matched"]:
                found |= dict(evaluated([row for row in rows if row.binding or row.decision == "error"]))
            else:
                problems += [f"{line['seq']}: {row} although the server did not match" for row in rows if row.decision != "nomatch"]
                agreed["policy does not match"] += 1
        expected = truth.pop(line["seq"], {})
        for key in sorted(expected.keys() | found.keys(), key=str):
            ours, theirs = found.get(key), expected.get(key)
            entry = listed.find(line["seq"], key)
            differs = {name for name in {**(ours or {}), **(theirs or {})} if (ours or {}).get(name) != (theirs or {}).get(name)}
            if entry is None:
                if differs:
                    problems.append(f"{line['seq']} {key}: {ours} and not {theirs}")
                else:
                    agreed[ours["decision"]] += 1  # type: ignore[index]
            elif not differs:
                problems.append(
                    f"{line['seq']} {key}: agrees although it is listed ({entry[0]}); take it from {DISAGREEMENTS.name}"
                )
            elif entry[1] and not differs <= set(entry[1]):
                problems.append(f"{line['seq']} {key}: may differ in {entry[1]} alone: {ours} and not {theirs}")
            else:
                explained[entry[0]] += 1
    assert not truth, f"passes of truth.jsonl that are not in the trace: {sorted(truth)[:5]}"
    with capsys.disabled():
        print(f"\ncontrol-plane-a: {sum(agreed.values())} agree {dict(agreed)}")
        for reason, count in explained.items():
            print(f"{count:6} listed: {reason}")
    assert not problems, f"{len(problems)} disagreements:\n" + "\n".join(problems[:10])
