"""`judge`: one call from manifests to their report, as notebooks and scripts make it."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml

import pipeline.readiness
from ingest.errors import InputError
from pipeline.readiness import ReadinessRules, judge
from tests.pipeline.stages.authorization.test_stage import ANN_READS, RBAC, SEE
from tests.recording import take_in
from tests.yaml_text import load_yaml

# A small log is enough evidence under these rules.
RULES = ReadinessRules(matched_units_min=1, days_min=0, weekdays_min=1)
SEE_NOTHING = f"{{apiVersion: {RBAC}/v1, kind: ClusterRole, metadata: {{name: see}}, rules: []}}"
OTHER = f"{{apiVersion: {RBAC}/v1, kind: ClusterRole, metadata: {{name: other}}, rules: []}}"


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """Ann reads pods, by a binding to a role. The log begins with the cluster."""
    return take_in(
        tmp_path / "lake",
        ANN_READS,
    )


def test_no_module_hides_the_function() -> None:
    """A module of the package with the function's name would take its place as soon as anything imports it."""
    assert all(importlib.util.find_spec(f"pipeline.readiness.{name}") is None for name in pipeline.readiness.__all__)


def test_a_text_of_roles_is_judged_with_the_roles_that_keep_everybody_working(lake: Path) -> None:
    found = judge(lake, SEE_NOTHING, rules=RULES)
    (entry,) = found.report.policies
    assert (entry.status, entry.denials.requests) == ("READY WITH EXEMPTIONS", 4)
    assert [value["kind"] for value in found.extra] == ["Role", "RoleBinding"]
    assert list(found.runs) == ["authorization"]
    flips = pq.read_table(found.verdicts("authorization"))["flip"].to_pylist()
    assert flips.count("newly-denied") == 4


def test_files_are_judged_as_their_text_is(lake: Path, tmp_path: Path) -> None:
    path = tmp_path / "roles.yaml"
    path.write_text(SEE_NOTHING)
    by_file, by_text = (judge(lake, given, rules=RULES, exemptions=False) for given in ([path], SEE_NOTHING))
    assert by_file.report.policies[0].status == by_text.report.policies[0].status == "NOT READY"
    assert by_file.extra == ()


def test_the_extra_roles_make_the_change_ready(lake: Path) -> None:
    extra = judge(lake, SEE_NOTHING, rules=RULES, calibrate=False).extra
    found = judge(lake, yaml.safe_dump_all([load_yaml(SEE_NOTHING), *extra]), rules=RULES)
    assert (found.report.policies[0].status, found.extra) == ("READY", ())


def test_against_the_same_roles_nothing_is_new(lake: Path) -> None:
    (entry,) = judge(lake, SEE_NOTHING, against=SEE_NOTHING, rules=RULES).report.policies
    assert entry.status == "NO NEW DENIALS"


def test_a_role_that_was_removed_grants_nothing(lake: Path) -> None:
    before = yaml.safe_dump({"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", "metadata": {"name": "see"}, **SEE})
    (entry,) = judge(lake, OTHER, against=before, rules=RULES, exemptions=False).report.policies
    assert (entry.status, entry.denials.requests) == ("NEW DENIALS", 4)


def test_manifests_that_no_stage_judges_by_are_an_error(lake: Path) -> None:
    with pytest.raises(InputError) as raised:
        judge(lake, "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}")
    assert raised.value.hint
