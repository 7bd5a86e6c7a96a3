"""The command line over the bundled log, and every kind of bad input: one clear line, the right exit code, nothing lost."""

from __future__ import annotations

import gzip
import io
import json
import re
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import zstandard

from api.cli import run
from queries import open_lake
from tests.yaml_text import load_yaml

DATA = Path(__file__).parents[3] / "api" / "demo"
POLICIES = DATA / "policies"


def events(lake: Path) -> int:
    reader = open_lake(lake)
    try:
        return int(reader.sql("SELECT count(*) FROM events").fetchall()[0][0])
    finally:
        reader.close()


@pytest.fixture
def log_lines() -> list[bytes]:
    """The first 300 lines of the bundled log."""
    return zstandard.ZstdDecompressor().decompress((DATA / "audit.jsonl.zst").read_bytes()).split(b"\n")[:300]


def test_the_demonstration_prints_what_the_data_folder_says(demonstration: Path) -> None:
    shown = (demonstration / "details.txt").read_text()
    # The counts of api/demo/README.md, in the order of the table's columns.
    assert ["16,375", "919", "919", "657", "663", "638"] in [line.split() for line in shown.splitlines()]
    assert "deny-external-ips" in shown
    assert "NOT READY" in shown
    page = (demonstration / "details.html").read_text()
    assert "<script" not in page
    assert "image-registry" in page
    # A second demonstration replaces the first; without the details it is one screen, the worst verdict first.
    lines = (demonstration / "screen.txt").read_text().splitlines()
    assert 20 <= len(lines) <= 40
    assert max(map(len, lines)) <= max(80, len(str(demonstration / "out")) + 40)
    verdicts = [line[:21].strip() for line in lines if line.startswith(("READY", "NOT READY", "INSUFFICIENT"))]
    assert verdicts == ["NOT READY", "NOT READY", "INSUFFICIENT EVIDENCE", "READY"]
    assert any("report.html" in line for line in lines)


def test_the_demonstration_spares_a_folder_that_is_no_lake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake" / "mine.txt").write_text("x")
    assert run(["demo", "--out", str(tmp_path)]) == 2
    assert "is not a lake" in capsys.readouterr().err
    assert (tmp_path / "lake" / "mine.txt").exists()


@pytest.mark.parametrize("form", ["table", "wide", "json", "yaml", "markdown"])
def test_violations_in_every_format(demo_lake: Path, capsys: pytest.CaptureFixture[str], form: str) -> None:
    assert run(["--lake", str(demo_lake), "violations", "-o", form]) == 0
    out = capsys.readouterr().out
    if form in ("json", "yaml"):
        data = json.loads(out) if form == "json" else load_yaml(out)
        assert sum(row["failures"] for row in data["failures"]) == 914  # 919 events, of which five CONNECTs left two each
        assert sum(row["requests"] for row in data["denials"]) == 657
        assert "first failure of a request" in data["notes"][0]
    else:
        assert "host-access" in out


def test_violations_by_namespace_within_a_window(demo_lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [
        "violations",
        "--by",
        "user",
        "-n",
        "shop-prod",
        "--since",
        "2026-11-21T03:25:00Z",
        "--until",
        "2026-11-21T03:26:00",
        "-o",
        "json",
    ]
    assert run(["--lake", str(demo_lake), *arguments]) == 0
    rows = json.loads(capsys.readouterr().out)["failures"]
    assert rows
    assert {row["namespace"] for row in rows} == {"shop-prod"}
    assert all("2026-11-21T03:25" in row["first_ts"] for row in rows)


def test_a_plan_is_printed_and_nothing_is_run(demo_lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lake = tmp_path / "lake"
    shutil.copytree(demo_lake, lake)
    assert run(["--lake", str(lake), "replay", "-f", str(POLICIES), "--plan"]) == 0
    out = capsys.readouterr().out
    assert "deny-external-ips / deny-external-ips" in out
    assert not list((lake / "runs").iterdir())


def test_replay_twice_gives_one_run_and_equal_bytes(demo_lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = []
    for name, workers in (("a", "1"), ("b", "2")):
        lake = tmp_path / name
        shutil.copytree(demo_lake, lake)
        assert run(["-q", "--lake", str(lake), "replay", "-f", str(POLICIES), "--workers", workers, "-o", "json"]) == 0
        (folder,) = (lake / "runs").iterdir()
        found.append((capsys.readouterr().out, (folder / "verdicts.parquet").read_bytes(), (folder / "plan.json").read_bytes()))
    assert found[0] == found[1]
    rows = {row["policy"]: row for row in json.loads(found[0][0])["bindings"]}
    assert rows["deny-external-ips"]["deny"] > 0
    assert rows["image-registry"]["matched"] > 1000


def test_a_changed_policy_is_compared_with_what_the_log_had_in_force(
    demo_lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = tmp_path / "lake"
    shutil.copytree(demo_lake, lake)
    start = ["-q", "--lake", str(lake), "replay", "-f", str(POLICIES / "image-registry.yaml"), "-o", "json"]
    assert run([*start, "--against-log", "2026-11-21T03:24:50Z"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["difference"]
    assert (row["policy"], row["newly_denied"]) == ("image-registry", 0)
    assert row["newly_allowed"] > 0  # ghcr.io/x/ is allowed now
    stricter = tmp_path / "stricter.yaml"
    stricter.write_text((POLICIES / "image-registry.yaml").read_text().replace("'mirror.corp.example/', ", ""))
    assert run([*start[:5], str(stricter), "-o", "json", "--against", str(POLICIES / "image-registry.yaml")]) == 0
    (row,) = json.loads(capsys.readouterr().out)["difference"]
    assert row["newly_denied"] > 0
    assert "mirror.corp.example" in row["denied_message"]
    assert run([*start[:3], "replay", "--from-log", "2026-11-21T03:25:00Z", "--plan"]) == 0
    assert "host-access / host-access" in capsys.readouterr().out
    assert run([*start[:3], "replay", "--from-log", "2026-11-21T03:24:16Z", "--plan"]) == 3
    assert "tell of a policy" in capsys.readouterr().err


def test_readiness_in_every_format_and_as_a_gate(calibrated_lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lake = tmp_path / "lake"
    shutil.copytree(calibrated_lake, lake)
    start = ["-q", "--lake", str(lake), "readiness", "-f", str(POLICIES / "deny-external-ips.yaml")]
    for form, sign in (("table", "NOT READY"), ("markdown", "# Policy readiness"), ("html", "<!DOCTYPE html>"), ("json", '"kind"')):
        assert run([*start, "-o", form, "--report-file", str(tmp_path / "r.html")]) == 0
        assert sign in capsys.readouterr().out
    assert "NOT READY" in (tmp_path / "r.html").read_text()
    assert run([*start, "-o", "owners", "--review-by", "2027-01-31"]) == 0
    told = capsys.readouterr().out
    assert told.startswith("To: ")
    assert "Please change this by 2027-01-31." in told
    assert run([*start, "--exit-code"]) == 1
    lenient = tmp_path / "rules.yaml"
    lenient.write_text("denied_units_max: 1000\ndays_min: 100\n")
    assert run([*start, "--exit-code", "--rules", str(lenient)]) == 3
    lenient.write_text("denied_units_max: 1000\ndays_min: 0\nweekdays_min: 1\nunknown_share_max: 1\n")
    assert run([*start, "--exit-code", "--rules", str(lenient)]) == 0


def test_a_bad_line_costs_only_itself(tmp_path: Path, log_lines: list[bytes], capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "audit.log"
    log.write_bytes(b"\n".join([*log_lines[:5], b"I1121 not JSON", b'{"kind":"Pod"}', *log_lines[5:10]]) + b"\n")
    lake = tmp_path / "lake"
    assert run(["--lake", str(lake), "ingest", str(log), "-o", "json"]) == 0
    row = json.loads(capsys.readouterr().out)["files"][0]
    assert (row["read"], row["stored"], row["quarantined"]) == (12, 10, 2)
    assert run(["--lake", str(lake), "ingest", str(log), "-o", "json"]) == 0
    row = json.loads(capsys.readouterr().out)["files"][0]
    assert (row["read"], row["stored"], row["known_lines"]) == (0, 0, 12)
    assert events(lake) == 10


def test_a_log_without_a_single_event_is_never_a_success(
    tmp_path: Path, log_lines: list[bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    lake, whole, bad = tmp_path / "lake", tmp_path / "whole.log", tmp_path / "bad.log"
    # SIEM rows often lack the zone of a time.
    zoneless = [re.sub(rb'("(?:stage|requestReceived)Timestamp":"[^"]+)Z"', rb'\1"', line) for line in log_lines[:3]]
    bad.write_bytes(b"\n".join([*zoneless, b'{"kind":"Pod"}']) + b"\n")
    whole.write_bytes(b"\n".join(log_lines[:5]) + b"\n")
    for _ in range(2):  # the second run knows the lines, and still has no event
        assert run(["--lake", str(lake), "ingest", str(bad)]) == 3
    assert run(["--lake", str(tmp_path / "other"), "ingest", str(bad)]) == 3
    printed = " ".join(capsys.readouterr().out.split())
    assert "4 records are not audit events" in printed
    assert f"the commonest reason (3 of 4): {bad}:1: the time" in printed
    assert run(["--lake", str(tmp_path / "both"), "ingest", str(bad), str(whole)]) == 4
    assert events(tmp_path / "both") == 5


@pytest.mark.parametrize("suffix", ["gz", "zst"])
def test_a_truncated_file_gives_what_is_before_the_damage(
    tmp_path: Path, log_lines: list[bytes], capsys: pytest.CaptureFixture[str], suffix: str
) -> None:
    data = b"\n".join(log_lines) + b"\n"
    packed = gzip.compress(data) if suffix == "gz" else zstandard.ZstdCompressor().compress(data)
    log = tmp_path / f"audit.log.{suffix}"
    log.write_bytes(packed[: len(packed) * 2 // 3])
    lake = tmp_path / "lake"
    assert run(["--lake", str(lake), "ingest", str(log)]) == 4
    assert "breaks off" in capsys.readouterr().out
    before = events(lake)
    assert before < len(log_lines)
    log.write_bytes(packed)
    assert run(["--lake", str(lake), "ingest", str(log)]) == 0
    assert events(lake) == len(log_lines)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"hello\nworld\n", "found text that is not JSON ('hello'), wanted audit events"),
        (b'{"kind":"PodList","apiVersion":"v1","items":[]}\n', "found PodList of v1, wanted audit events"),
        (b"\x00\x01\x02" * 100, "found binary data"),
        (b'{\n "kind": "PodList",\n "apiVersion": "v1"\n}\n', "found PodList of v1"),
        (b"\x1f\x8b\x08\x00garbage", "gzip stream"),
    ],
)
def test_what_is_no_audit_log_is_refused_whole(
    tmp_path: Path, log_lines: list[bytes], capsys: pytest.CaptureFixture[str], content: bytes, words: str
) -> None:
    good, bad = tmp_path / "audit.log", tmp_path / "other.log"
    good.write_bytes(log_lines[0] + b"\n")
    bad.write_bytes(content)
    assert run(["--lake", str(tmp_path / "lake"), "ingest", str(good), str(bad)]) == 2
    assert words in capsys.readouterr().err
    assert events(tmp_path / "lake") == 0


POLICY = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: p}
spec:
  matchConstraints:
    resourceRules:
      - {apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}
  validations:
    - expression: EXPRESSION
"""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["violations"], "there is no lake here"),
        (["ingest", "nothing-here.log"], "nothing-here.log: no such file or folder"),
        (["ingest", "--cluster", "../x", "nothing-here.log"], "does not name a cluster"),
        (["violations", "--since", "soon"], "'soon' is not a time"),
        (["violations", "--since", "2026-01-02", "--until", "2026-01-01"], "is not before"),
        (["replay"], "no policies are given"),
        (["replay", "-f", "nothing-here.yaml"], "nothing-here.yaml: no such file or folder"),
        (["readiness", "-f", "x.yaml", "--report-file", "report.pdf"], "ends in .pdf"),
        (["readiness", "-f", "x.yaml", "--rules", "nothing-here.yaml"], "cannot read readiness rules"),
        (["serve", "--host", "0.0.0.0"], "anybody there could write evidence"),
    ],
)
def test_bad_usage_is_one_line_and_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    assert run(["--lake", str(tmp_path / "lake"), *arguments]) == 2
    err = capsys.readouterr().err
    assert words in err
    assert "Traceback" not in err


def test_unknown_commands_and_options_are_usage_errors(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["frobnicate"]) == 2
    assert run(["violations", "--frobnicate"]) == 2
    assert "No such" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: [", "policies.yaml"),
        ("kind: Pod\napiVersion: v1\nmetadata: {name: x}\n", "found no ValidatingAdmissionPolicy, but 1 Pod of v1"),
        (POLICY.replace("[CREATE]", "[]"), "policies.yaml:"),
        (POLICY.replace("validations:", "validatons:"), "validatons"),
    ],
)
def test_bad_policies_are_named_with_file_and_line(
    demo_lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, words: str
) -> None:
    file = tmp_path / "policies.yaml"
    file.write_text(text)
    assert run(["--lake", str(demo_lake), "replay", "-f", str(file), "--plan"]) == 2
    assert words in capsys.readouterr().err


BINDING = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: another}
spec: {policyName: POLICY, validationActions: [Deny]}
"""


def test_standard_input_is_utf_8(demo_lake: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"kind: Pod\n\xff")))
    assert run(["--lake", str(demo_lake), "replay", "-f", "-", "--plan"]) == 2
    assert "standard input:2: found the byte 0xff, wanted UTF-8" in capsys.readouterr().err


def test_a_binding_of_a_policy_that_is_not_given_is_told(
    demo_lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "policies.yaml"
    file.write_text(POLICY.replace("EXPRESSION", "'true'") + "---\n" + BINDING.replace("POLICY", "q"))
    assert run(["--lake", str(demo_lake), "replay", "-f", str(file), "--plan"]) == 0
    assert "policies.yaml:11: another binds q, which -f does not give: it has no effect" in capsys.readouterr().err


def test_a_binding_is_tried_with_the_policy_that_the_log_shows(
    demo_lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "binding.yaml"
    file.write_text(BINDING.replace("POLICY", "image-registry"))
    at = ["--from-log", "2027-01-01T00:00:00Z", "--plan", "-o", "csv"]
    assert run(["--lake", str(demo_lake), "replay", "-f", str(file), *at]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert [row.split(",")[:2] for row in rows[1:]] == [["image-registry", "another"]]


@pytest.mark.parametrize(("version", "taken"), [("1.99", "1.37"), ("1.20", "1.30"), ("1.36", "")])
def test_a_version_whose_cel_is_unknown_is_named_with_the_one_in_its_place(
    demo_lake: Path, capsys: pytest.CaptureFixture[str], version: str, taken: str
) -> None:
    policies = str(POLICIES / "image-registry.yaml")
    assert run(["--lake", str(demo_lake), "replay", "-f", policies, "--plan", "--kubernetes-version", version]) == 0
    told = [line for line in capsys.readouterr().err.splitlines() if "--kubernetes-version" in line]
    assert [line.split()[-1] for line in told] == ([taken] if taken else [])


def test_a_policy_that_does_not_compile_is_refused_with_its_place(
    demo_lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "policies.yaml"
    file.write_text(POLICY.replace("EXPRESSION", "object.spec.replicas <"))
    assert run(["--lake", str(demo_lake), "replay", "-f", str(file), "--plan"]) == 2
    assert "policies.yaml:9" in capsys.readouterr().err
