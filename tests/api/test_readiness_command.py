"""`hindcast readiness`: what it exports is enough to recompute its figures with no part of ours."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

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
