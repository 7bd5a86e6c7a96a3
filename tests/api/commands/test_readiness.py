"""`hindcast readiness`: what it exports is enough to recompute its figures with no part of ours."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest

from api.cli import run
from tests.recording import START, deployment, recorded, take_in

POLICY = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: limit}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [deployments]}]
  validations: [{expression: object.spec.replicas <= 5, message: too many}]
"""

ROLE = """
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: readers}
rules: [{apiGroups: [apps], resources: [deployments], verbs: [get]}]
"""


def test_what_it_exports_recomputes_its_figures(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(POLICY)
    events = [
        recorded(
            f"id-{hour}", START + timedelta(hours=hour), "create", deployment(f"web-{hour % 7}", hour), user=f"user-{hour % 3}"
        )
        for hour in range(12)
    ]
    take_in(tmp_path / "lake", events)
    out = tmp_path / "out"
    command = ["-q", "--lake", str(tmp_path / "lake"), "readiness", "-f", str(tmp_path / "policy.yaml"), "--no-calibrate"]
    assert run([*command, "--export", str(out)]) == 0
    engine = duckdb.connect()
    for name in ("outcomes", "policies", "queries"):
        engine.execute(f"CREATE VIEW {name} AS FROM '{out / name}.parquet'")
    asked = engine.execute("SELECT of, sql FROM queries WHERE sql LIKE '%FROM outcomes WHERE policy = $policy%'").fetchall()
    assert len(asked) > 20
    for of, sql in asked:
        column = of.removeprefix("policies.").replace(".", "_")
        ((printed,),) = engine.execute(f"SELECT {column} FROM policies").fetchall()
        ((found,),) = engine.execute(sql, {"policy": "limit", "binding": None}).fetchall()
        if isinstance(found, list):
            assert found[0] / found[1] < printed < 1 or (found[0] == found[1] and printed == 1), of
        else:
            assert found == (pytest.approx(printed) if isinstance(printed, float) else printed), of


def test_an_export_that_cannot_be_written_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "policy.yaml").write_text(POLICY)
    take_in(tmp_path / "lake", [recorded("id", START, "create", deployment("web", 9))])
    command = ["-q", "--lake", str(tmp_path / "lake"), "readiness", "-f", str(tmp_path / "policy.yaml"), "--no-calibrate"]
    assert run([*command, "--export", "/dev/null/out"]) == 2
    assert "--export: /dev/null/out cannot be written: /dev/null is not a folder" in capsys.readouterr().err


def test_a_remedy_stands_under_the_first_policy_that_needs_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "policy.yaml").write_text(f"{POLICY}\n---\n{POLICY.replace('name: limit', 'name: other')}")
    hidden = [
        recorded(f"id-{hour}", START + timedelta(hours=hour), "create", deployment("web", 1), level="Metadata") for hour in range(3)
    ]
    take_in(tmp_path / "lake", hidden)
    ask = ["-q", "--lake", str(tmp_path / "lake"), "readiness", "-f", str(tmp_path / "policy.yaml"), "--no-calibrate"]
    assert run(ask) == 0
    shown = capsys.readouterr().out
    assert shown.count("to know it, record writes at level RequestResponse") == 1
    assert shown.count("the audit level was Metadata; the remedy stands under limit") == 1


def test_a_kept_decision_is_that_of_a_fresh_lake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """After each arrival, edit and expiry a lake with kept decisions answers as a copy of it without any; so for roles."""
    policy, rules, lake = tmp_path / "policy.yaml", tmp_path / "rules.yaml", tmp_path / "lake"
    policy.write_text(POLICY)
    rules.write_text("denied_units_max: 3\n")

    def log(numbers: range, hour: int) -> list[dict[str, Any]]:
        return [
            recorded(f"id-{n}", START + timedelta(hours=hour, minutes=n), "create", deployment(f"web-{n}", n), user=f"user-{n % 3}")
            for n in numbers
        ]

    def answer(of: Path, *options: str) -> str:
        capsys.readouterr()
        assert run(["-q", "--lake", str(of), "readiness", "-f", str(policy), "-o", "json", *options]) == 0
        return capsys.readouterr().out

    def check(*options: str) -> str:
        fresh = tmp_path / "fresh"
        shutil.copytree(lake, fresh)
        for name in ("runs", "derived"):
            shutil.rmtree(fresh / name, ignore_errors=True)
        found = answer(fresh, *options)
        shutil.rmtree(fresh)
        assert answer(lake, *options) == found
        return found

    take_in(lake, log(range(8), 5))
    answers = [check(), check("--rules", str(rules))]
    take_in(lake, log(range(8, 12), 2), "late.jsonl")
    answers.append(check())
    policy.write_text(POLICY.replace("<= 5", "<= 6"))
    answers.append(check())
    assert run(["-q", "--lake", str(lake), "expire", "--objects-before", (START + timedelta(days=2)).isoformat()]) == 0
    answers.append(check())
    assert len({*answers}) == len(answers)
    kept = max(lake.glob("runs/*/report.json"), key=lambda file: file.stat().st_mtime_ns)
    kept.write_text(kept.read_text().replace("limit", "words"))
    assert '"words"' in answer(lake)
    policy.write_text(ROLE)
    assert answer(lake) == check()
