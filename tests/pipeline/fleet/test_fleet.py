"""Clusters of a fleet: each is judged as if it were alone, the odd ones stand apart, and an interrupted fleet goes on."""

from __future__ import annotations

import json
import shutil
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

from api.cli import run
from api.settings import Settings
from ingest.lake import Lake
from pipeline.fleet import FleetReport, Question, judge_fleet
from pipeline.fleet.across import distance, fleet_report
from pipeline.fleet.model import FleetCell, FleetCluster
from pipeline.fleet.store import FleetStore
from pipeline.manifests.files import texts_of
from pipeline.readiness.judging import judge
from pipeline.readiness.model import Status
from pipeline.readiness.rules import ReadinessRules
from pipeline.report.fleet import FLEET_FORMATS, fleet_document, fleet_schema
from pipeline.runs import RunStore
from queries.lake import files_of
from tests.fleet_of import make_fleet, members
from tests.querying import QueryClient
from tests.recording import Log, deployment
from tests.sharing import shared_lake

# A Deployment needs a day of traffic here: a small fleet has files of few days.
RULES = ReadinessRules(days_min=1, weekdays_min=1, matched_units_min=2)
ROOT = Path(__file__).parents[3]
POLICY = ROOT / "api" / "demo" / "policies" / "host-namespaces.yaml"


@pytest.fixture(scope="module")
def lake(demo_lake: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five clusters of forty, a twentieth of the workloads: two clusters under a name, one at level Metadata, two minors in one."""

    def make(path: Path) -> None:
        fleet = members(40)
        chosen = [replace(each, share=each.share * 0.05, days=3.0) for each in (*fleet[:2], fleet[3], fleet[5], fleet[11])]
        make_fleet(demo_lake, path, chosen, done=lambda name: None)

    return shared_lake(tmp_path_factory, "fleet", make)


def question() -> Question:
    return Question(tuple(texts_of([POLICY])), rules=RULES, compares=False, remedies=False)


@pytest.fixture(scope="module")
def report(lake: Path) -> FleetReport:
    return judge_fleet(lake, question())


def test_clusters_that_cannot_be_judged_stand_apart_with_the_reason(report: FleetReport) -> None:
    apart = {each.cluster[-2:]: each for each in report.apart}
    assert apart.keys() == {"00", "01"}
    assert apart["00"].apart.startswith(f"two clusters share the name {apart['00'].cluster}: namespace kube-system")
    assert any("Metadata" in reason for cell in apart["01"].cells for reason in cell.reasons)
    assert report.clusters_total == 5


def test_a_cluster_is_judged_as_if_it_were_the_only_one(report: FleetReport, lake: Path, tmp_path: Path) -> None:
    found = next(each for each in report.clusters if each.cluster.endswith("11"))
    alone = tmp_path / "alone"
    with closing(Lake.open(lake)) as opened, closing(Lake.create(alone)) as own:
        for kind in ("events", "objects"):
            for file in opened.manifest.files(kind, found.cluster):
                target = alone / file.path
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(lake / file.path, target)
                own.manifest.commit([file])
        assert [Path(path).name for path in files_of(opened, found.cluster).events] == [
            Path(path).name for path in files_of(own).events
        ]
    whole = judge(alone, [POLICY], rules=RULES, calibrate=False, exemptions=False).report
    (entry,), (cell,) = whole.policies, found.cells
    assert (cell.status, cell.reasons, cell.requests_judged, cell.units_judged, cell.unit_rate_upper) == (
        entry.status, entry.reasons, entry.exposure.requests_judged, entry.exposure.units_judged, entry.denials.unit_rate_upper,
    )  # fmt: skip
    assert cell.run_id == whole.run_id


def test_versions_and_recorded_differences(report: FleetReport) -> None:
    upgraded = next(each for each in report.clusters if each.cluster.endswith("03"))
    assert upgraded.minors == ("1.35", "1.36")
    assert upgraded.kubernetes_version == "1.36"
    assert any(upgraded.cluster in caveat for caveat in report.caveats)
    # The cluster at level Metadata has no body of its policies, so each is unknown there.
    assert report.differences
    assert all(each.kind in ("policy", "binding") for each in report.differences)


def test_an_interrupted_fleet_goes_on_and_gives_the_same_report(report: FleetReport, lake: Path) -> None:
    asked: list[str] = []
    again = judge_fleet(lake, question(), judged=lambda cluster, judgement: asked.append(judgement.report.run_id))
    assert asked == []
    assert again == report


def test_every_format_has_every_cluster_and_the_json_its_schema(report: FleetReport) -> None:
    for render in FLEET_FORMATS.values():
        text = render(report)
        assert all(each.cluster in text for each in (*report.clusters, *report.apart))
    jsonschema.validate(json.loads(json.dumps(fleet_document(report))), fleet_schema())


def test_the_command_prints_the_report_and_names_an_unknown_cluster(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--quiet", "--lake", str(lake), "fleet", "readiness", "-f", str(POLICY), "--no-calibrate", "--no-exemptions"]
    assert run([*arguments, "--cluster", "nowhere"]) == 2
    assert "the lake has no events of 'nowhere'" in capsys.readouterr().err


def test_a_rollout_has_waves_of_each_cluster(lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "waves"
    arguments = ["--quiet", "--lake", str(lake), "fleet", "rollout", "-f", str(POLICY), "--workers", "1"]
    assert run([*arguments, "-o", "json", "--write", str(folder)]) == 0
    tables = json.loads(capsys.readouterr().out)
    rows = tables["rollouts"]
    assert [row["order"] for row in rows] == list(range(1, len(rows) + 1))
    changes = [row["to_change"] for row in rows]
    assert changes == sorted(changes)
    assert all(row["later_denied"] == 0 for row in rows if row["first"] != "nothing")
    shared = next(row for row in tables["apart"] if row["reason"].startswith("two clusters share the name"))
    assert shared["cluster"] not in {row["cluster"] for row in rows}
    assert len([*folder.iterdir()]) == len(rows)
    # A cluster has the waves that it has alone.
    alone = rows[0]
    assert run([*arguments, "-o", "json", "--cluster", alone["cluster"]]) == 0
    (again,) = json.loads(capsys.readouterr().out)["rollouts"]
    assert {**again, "order": alone["order"]} == alone
    assert run([*arguments, "--write", str(folder)]) == 2
    assert "is there already" in capsys.readouterr().err
    assert run([*arguments, "-o", "html"]) == 2
    assert "a rollout has no format 'html'" in capsys.readouterr().err


def test_a_level_is_rolled_out_over_a_fleet(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--quiet", "--lake", str(lake), "fleet", "rollout", "--level", "baseline", "--workers", "1", "-o", "json"]
    assert run(arguments) == 0
    rows = json.loads(capsys.readouterr().out)["rollouts"]
    assert {row["policy"] for row in rows} == {"baseline"}
    assert all(row["later_denied"] in (0, None) for row in rows)


def test_a_report_under_other_rules_stays_with_its_cluster(
    report: FleetReport, lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = report.clusters[0].cluster
    arguments = ["--quiet", "--lake", str(lake), "fleet", "readiness", "-f", str(POLICY), "--no-calibrate", "--no-exemptions"]
    assert run([*arguments, "--cluster", name, "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    (found,) = document["clusters"] + document["apart"]  # by the rules of the command it has too little traffic
    with QueryClient(Settings(lake=lake, query_seconds_max=200)) as client:
        other = client.get(f"/runs/{found['cells'][0]['run_id']}/readiness", rule="days_min=0.25")
    assert other["clusters"] == [name]
    assert other["policies"][0]["exposure"]["requests_judged"] == found["cells"][0]["requests_judged"]


def test_the_commands_of_the_page_on_fleets_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my-policies").mkdir()
    shutil.copy(POLICY, tmp_path / "my-policies")
    for name in ("prod-1", "prod-2"):
        log = Log()
        for number in range(6):
            log.write("create", deployment(f"web-{number}", number))
        (tmp_path / name).mkdir()
        (tmp_path / name / "audit.log").write_text("".join(json.dumps(line) + "\n" for line in log.lines))
    page = (ROOT / "docs" / "fleets.md").read_text(encoding="utf-8")
    commands = [line.split()[1:] for line in page.splitlines() if line.startswith("hindcast ") and " serve " not in line]
    assert len(commands) == 5
    for arguments in commands:
        assert run(["-q", *arguments]) == 0, arguments
    assert "prod-2" in Path("fleet.html").read_text(encoding="utf-8")
    found = [each.run_id for each in RunStore(Path("lake")).every()]
    (kept,) = FleetStore(Path("lake")).reports()
    assert kept.clusters_total == 2
    assert run(["-q", "--lake", "lake", "runs", "rm", *found]) == 0
    assert list(FleetStore(Path("lake")).reports()) == []


CELL = FleetCell("p", "p", "validating", Status.READY, (), "run", 100, 100, 0, 0, 30, 0, 9.0, 0.1)


def test_the_worst_cluster_comes_first_and_the_most_usual_ready_one_begins() -> None:
    bad, worse = replace(CELL, status=Status.NOT_READY, units_denied=1), replace(CELL, status=Status.NOT_READY, units_denied=5)
    usual, odd = {"CREATE pods": 0.5, "UPDATE pods": 0.5}, {"CREATE pods": 1.0}
    found = fleet_report(
        question(),
        [
            FleetCluster("odd", cells=(CELL,), mix=odd),
            FleetCluster("usual", cells=(CELL,), mix=usual),
            FleetCluster("bad", cells=(bad,), mix=usual),
            FleetCluster("worse", cells=(worse,), mix=usual),
            FleetCluster("silent", apart="it has no request in the window"),
        ],
        None,
    )
    assert [each.cluster for each in found.clusters] == ["worse", "bad", "odd", "usual"]
    (policy,) = found.policies
    assert (policy.ready, policy.clusters, policy.not_ready, policy.unjudged) == (2, 5, ("worse", "bad"), ("silent",))
    assert (found.start.cluster, found.start.others) == ("usual", ("odd",))
    assert [each.unit_rate_upper for each in policy_cells(found)] == [0.1, 0.1, 0.1, 0.1]
    assert distance(usual, odd) == 0.5


def policy_cells(found: FleetReport) -> list[FleetCell]:
    return [cell for each in found.clusters for cell in each.cells]


def test_one_cluster_under_two_names_gives_a_caveat() -> None:
    twins = [FleetCluster(name, uid="u1", cells=(CELL,)) for name in ("a", "b")]
    (caveat,) = fleet_report(question(), twins, None).caveats
    assert caveat.startswith("a and b have the same namespace kube-system")
