"""Replays of Pod Security against a recording of a real API server 1.36.2: data/pod-security-a (README there).

`truth` says what the plugin did to each recorded write, and `twins` what it did to the same writes under other labels.
"""

from __future__ import annotations

import json
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from io import TextIOWrapper
from pathlib import Path
from typing import Any

import pytest
import zstandard

from ingest.errors import InputError
from ingest.lake import Lake
from ingest.sources.files import ingest_files
from ingest.sources.snapshot import ingest_snapshot
from pipeline.manifests.documents import read_documents
from pipeline.requests.met import Met
from pipeline.runs.window import Window
from pipeline.stages.pod_security.agreement import compare
from pipeline.stages.pod_security.checks.pod import Pod
from pipeline.stages.pod_security.checks.table import Level, failed_checks
from pipeline.stages.pod_security.given import Given, given_of
from pipeline.stages.pod_security.lane import PodJudge
from pipeline.stages.pod_security.policy import PREFIX, LevelVersion, Mode
from pipeline.stages.pod_security.ruling import Ruling
from pipeline.stages.pod_security.subject import NOT_REACHED
from pipeline.stages.pod_security.walk import Walk
from queries import LakeReader, open_lake

pytestmark = pytest.mark.conformance

_MINOR = 36
_CUT = 256  # of each warning, where all together are too long
_MODES = (Mode.ENFORCE, Mode.AUDIT, Mode.WARN)


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with zstandard.open(path, "rb") as stream:
        yield from map(json.loads, TextIOWrapper(stream, encoding="utf-8"))


@pytest.fixture(scope="module")
def recorded(shared: Path) -> Path:
    return shared / "data" / "pod-security-a"


@pytest.fixture(scope="module")
def reader(recorded: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LakeReader]:
    """A lake with the whole recording, and the snapshot from before it. Cluster `lab`."""
    path = tmp_path_factory.mktemp("pod_security") / "lake"
    with closing(Lake.create(path)) as lake:
        ingest_files(lake, [recorded / "audit.jsonl.zst"], "lab", received_ts=0.0)
        snapshot = recorded / "snapshots" / "1-before"
        listed = next(_lines(snapshot / "namespaces.json.zst"))
        ingest_snapshot(lake, [snapshot], "lab", datetime.fromtimestamp(listed["metadata"]["takenAt"], UTC))
    with closing(open_lake(path)) as reader:
        yield reader


@pytest.fixture(scope="module")
def configured(recorded: Path) -> Given:
    """The configuration of the server."""
    return given_of(read_documents((recorded / "config.yaml").read_text(), "config.yaml"))


def _annotations(found: Mapping[str, Ruling]) -> dict[str, str]:
    return {key: value for each in found.values() for key, value in each.annotations}


def _violations(ruling: Ruling) -> str:
    return f'PodSecurity "{ruling.policy}": {ruling.message}'


def _same_warnings(found: Ruling, told: Sequence[str]) -> bool:
    """Whether the client saw the warnings of a ruling. The server sends none with a control character, and cuts long ones."""
    is_pod = not str(found.message).startswith(("existing pods in ", "namespace "))
    wanted = found.message.split("\n") if found.message and not is_pod else []
    if is_pod and found.decision == "deny":
        wanted = [f"would violate {_violations(found)}"]
    sent = [each for each in wanted if not any(unicodedata.category(letter) == "Cc" for letter in each)]
    told = [each for each in told if "PodSecurity" in each or not is_pod]
    return told == sent or told == [each[:_CUT] for each in sent][: len(told)]


def _differences(found: Mapping[str, Ruling], row: Mapping[str, Any], warnings: Sequence[str] | None) -> list[str]:
    """In what the rulings on a Pod or controller differ from the answer of the server."""
    enforce = found[Mode.ENFORCE]
    is_denied = row.get("message") is not None and 'violates PodSecurity "' in row["message"]
    wrong = [] if _annotations(found) == row["annotations"] else ["annotations"]
    if (enforce.decision == "deny") != is_denied or (
        is_denied and not row["message"].endswith(f" is forbidden: violates {_violations(enforce)}")
    ):
        wrong.append("refusal")
    if warnings is not None and not _same_warnings(found[Mode.WARN], warnings):
        wrong.append("warnings")
    return wrong


def _of_namespace(found: Mapping[str, Ruling], row: Mapping[str, Any]) -> list[str]:
    """In what the rulings on a write of a namespace differ from the answer of the server."""
    enforce = found[Mode.ENFORCE]
    is_denied = row["result"] == "labels refused"
    wrong = [] if (enforce.decision == "deny") == is_denied else ["refusal"]
    if is_denied and row["message"] != f'Namespace "{row["name"]}" is invalid: {enforce.message}':
        wrong.append("message")
    if not is_denied and row["psaWarnings"] is not None and not _same_warnings(found[Mode.WARN], row["psaWarnings"]):
        wrong.append("warnings")
    return wrong


def test_recorded_story(recorded: Path, reader: LakeReader, configured: Given) -> None:
    """Each write that came to the plugin: refused or not, annotations and warnings, word for word."""
    truth = {row["auditID"]: row for row in _lines(recorded / "truth.jsonl.zst")}
    told: Counter[str] = Counter()
    wrong = []
    for found, rulings in Walk(reader, configured, Window(), _MINOR, meets_ignored=True).rulings():
        row = truth.pop(found.event.audit_id)
        by_mode = {str(each.mode): each for each in rulings}
        assert set(by_mode) == set(_MODES)
        if any(each.decision == "unknown" for each in rulings):
            told[f"unknown, {row['level']}"] += 1
            continue
        is_namespace = row["resource"] == "namespaces"
        differences = _of_namespace(by_mode, row) if is_namespace else _differences(by_mode, row, row["psaWarnings"])
        if not differences:
            told["same"] += 1
        elif row.get("labelsChanging"):
            told["labels changing"] += 1
        else:
            wrong.append((row["auditID"], differences))
    assert not wrong
    # The plugin is not asked about the others.
    assert {row["operation"] for row in truth.values()} <= {"DELETE", "CONNECT"}
    assert told == {"same": 5147, "unknown, Metadata": 87, "unknown, RequestResponse": 22, "unknown, Request": 1}


def test_twins(recorded: Path, reader: LakeReader, configured: Given) -> None:
    """The same writes under other labels: levels, versions, modes, mixtures, and labels that are not valid."""
    twins: dict[str, list[dict[str, Any]]] = {}
    for row in _lines(recorded / "twins.jsonl.zst"):
        twins.setdefault(row["auditID"], []).append(row)
    truth = {row["auditID"]: row for row in _lines(recorded / "truth.jsonl.zst")}
    walk = Walk(reader, configured, Window(), _MINOR, meets_ignored=True)
    judges: dict[str, PodJudge] = {}

    def answers(met: Met) -> Iterator[tuple[dict[str, Any], Sequence[Ruling]]]:
        attempt = walk.attempt(met)
        for row in twins.get(met.event.audit_id, ()):
            name = json.dumps(row["labels"], sort_keys=True)
            if name not in judges:
                judges[name] = walk.pod_judge(Given({}, configured.configuration, given_labels(row["labels"])))
            yield row, judges[name].rulings(met.event, attempt)

    told: Counter[str] = Counter()
    wrong = []
    for met, _ in walk.rulings():
        for row, rulings in answers(met):
            if any(each.decision == "unknown" for each in rulings):
                told["unknown"] += 1
            elif rulings[0].why == NOT_REACHED:
                assert truth[row["auditID"]]["result"] == "none"
                assert truth[row["auditID"]]["code"] >= 400
                told["refused before"] += 1
            elif differences := _differences({str(each.mode): each for each in rulings}, row, row["warnings"]):
                wrong.append((row["auditID"], row["shadow"], row["status"], differences))
            else:
                told["same"] += 1
    assert not wrong
    assert told == {"same": 20050, "refused before": 1140, "unknown": 570}


def given_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """Labels as manifests give them: in the order of the plugin, which is that of its texts."""
    written = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "x", "labels": {PREFIX + k: v for k, v in labels.items()}},
    }
    return dict(given_of(read_documents(json.dumps(written), "x.json")).labels["x"])


def test_configuration_from_notes(reader: LakeReader, configured: Given) -> None:
    """Without the file, the log shows its exemptions by name and the defaults of enforce and audit; each note comes again."""
    walk = Walk(reader, Given({}), Window(), _MINOR)
    assert configured.configuration is not None
    given, noted = configured.configuration, walk.configuration
    assert (noted.usernames, noted.namespaces) == (given.usernames, given.namespaces)
    assert [noted.defaults[mode] for mode in _MODES[:2]] == [given.defaults[mode] for mode in _MODES[:2]]
    found = compare(walk)
    assert found.agreed == found.compared
    assert found.compared == {"enforce-policy": 2131, "audit-violations": 1345, "refused": 931, "exempt": 255, "error": 54}


def test_notes_of_another_cluster(recorded_lake: Path) -> None:
    """Each annotation and refusal of control-plane-a, word for word."""
    with closing(open_lake(recorded_lake)) as reader:
        found = compare(Walk(reader, Given({}), Window(), _MINOR))
    assert found.agreed == found.compared == {"enforce-policy": 1270, "audit-violations": 130, "refused": 16}
    assert not found.unknown


def test_configurations(recorded: Path) -> None:
    """The configurations with which the server starts, and those with which it does not."""
    cases = json.loads((recorded / "answers" / "config_cases.json").read_text())
    told: Counter[str] = Counter()
    for name, case in cases.items():
        if "config" not in case:
            continue  # emulated versions
        text = case["config"] if isinstance(case["config"], str) else json.dumps(case["config"])
        if not case["starts"] or "path" in name:
            with pytest.raises(InputError, match="is in another file" if "path" in name else "config.yaml"):
                given_of(read_documents(text, "config.yaml"))
            told["refused"] += 1
            continue
        found = given_of(read_documents(text, "config.yaml")).configuration
        policy = LevelVersion(Level.PRIVILEGED) if found is None else found.defaults[Mode.ENFORCE]
        pod = Pod({}, {"hostPID": True, "containers": [{"name": "c"}]})
        violations = ", ".join(str(each.failure) for each in failed_checks(pod, policy.level, policy.minor(_MINOR)))
        assert (case["podWithHostPID"]["message"] or "").endswith(violations), name
        assert bool(violations) == (case["podWithHostPID"]["status"] == 403), name
        told["taken"] += 1
    assert told == {"taken": 11, "refused": 16}
