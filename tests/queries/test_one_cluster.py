"""A reader of one cluster sees nothing of the others, in a database of its own or in a shared one."""

from __future__ import annotations

from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from ingest.lake import Lake
from ingest.sources.files import ingest_files
from ingest.sources.snapshot import ingest_snapshot
from pipeline import load_policy_set, plan_replay, run_replay
from pipeline.requests.kept.records import ground_of
from queries import open_lake
from queries.identity import mixed_names
from queries.lake import files_of
from tests.recording import START, Object, deployment, recorded

POLICY = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: few}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [deployments]}]
  validations: [{expression: "object.spec.replicas < 5 && (oldObject == null || oldObject.spec.replicas < 5)"}]
"""


def events(cluster: str, replicas: int) -> list[Object]:
    """A Deployment that is created and updated, and kube-system with a uid of the cluster."""
    system = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-system", "uid": f"uid-{cluster}"}}
    first, second = deployment("web", replicas), deployment("web", replicas + 1, resourceVersion="2")
    made = [("create", system), ("create", first), ("update", second)]
    return [recorded(f"{cluster}-{number}", START + timedelta(hours=number), verb, obj) for number, (verb, obj) in enumerate(made)]


def put(lake: Path, cluster: str, found: list[Object]) -> None:
    import json

    path = lake.parent / f"{cluster}-{found[0]['auditID']}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(event) + "\n" for event in found) + "not an event\n")
    with closing(Lake.create(lake)) as opened:
        ingest_files(opened, [path], cluster, received_ts=0.0)
        (path.parent / "namespaces.json").write_text(json.dumps({"kind": "NamespaceList", "apiVersion": "v1", "items": []}))
        ingest_snapshot(opened, [path.parent / "namespaces.json"], cluster, START)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("two") / "lake"
    put(path, "east", events("east", 1))
    put(path, "west", events("west", 7))
    return path


@pytest.mark.parametrize("is_shared", [False, True], ids=["own database", "shared database"])
def test_a_reader_of_one_cluster_sees_no_other(lake: Path, is_shared: bool) -> None:
    with closing(open_lake(lake)) as whole, closing(Lake.open(lake)) as opened:
        reader = whole.narrowed(files_of(opened, "west")) if is_shared else open_lake(lake, cluster="west")
        with closing(reader):
            for view in ("events", "requests", "objects", "object_lists", "lake_quarantine", "cluster_uids", "sources"):
                found = reader.sql(f"SELECT DISTINCT cluster FROM {view}").fetchall()
                assert found == [("west",)] or view in ("objects",), view
            assert reader.sql("SELECT count(*) FROM events").fetchall() == [(3,)]
        assert whole.sql("SELECT count(*) FROM events").fetchall() == [(6,)]


def test_replays_of_one_cluster_and_of_all_agree_and_keep_what_they_found(lake: Path, tmp_path: Path) -> None:
    policy = tmp_path / "few.yaml"
    policy.write_text(POLICY)
    policies, found, kept = load_policy_set([policy]), {}, {}
    for cluster in ("", "east", "west", ""):
        with closing(open_lake(lake, cluster=cluster)) as reader:
            plan = plan_replay(reader, policies)
            run = run_replay(plan, lake)
            verdicts = f"{lake}/runs/{run.run_id}/verdicts.parquet"
            rows = reader.sql(f"SELECT cluster, audit_id, policy, effect FROM '{verdicts}' ORDER BY ALL").fetchall()
        found[cluster] = rows
        kept[cluster] = sorted(ground_of(lake, "admissions", (), cluster).parent.glob("*/*.parquet"))
    assert found[""] == [*found["east"], *found["west"]]
    assert {effect for *_, effect in found["east"]} == {"admit"}
    assert {effect for *_, effect in found["west"]} == {"deny"}
    # The requests that one cluster keeps stay when another is replayed.
    assert all(kept.values())
    assert len({path for paths in kept.values() for path in paths}) == 3


def test_two_clusters_under_one_name_are_found_out(lake: Path, tmp_path: Path) -> None:
    with closing(open_lake(lake)) as reader:
        assert mixed_names(reader) == {}
    mixed = tmp_path / "lake"
    put(mixed, "lab", events("east", 1))
    put(mixed, "lab", events("west", 1))
    with closing(open_lake(mixed)) as reader:
        (sentence,) = mixed_names(reader).values()
    assert sentence.startswith("two clusters share the name lab: namespace kube-system had the uid uid-")
