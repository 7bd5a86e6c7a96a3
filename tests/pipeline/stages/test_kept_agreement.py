"""How far stages agree with the record is found out once for the files of a lake, and says the same when it is read again."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ingest.lake import Lake
from ingest.sources.files import ingest_files
from pipeline.authorization import OtherAuthorizers
from pipeline.requests.past import load_history
from pipeline.runs.window import Window
from pipeline.stages.authorization import calibration
from pipeline.stages.pod_security import agreement as levels
from pipeline.stages.pod_security.given import Given
from pipeline.stages.pod_security.walk import Walk
from pipeline.stages.webhooks import agreement as webhooks
from queries import LakeReader, open_lake
from tests.pipeline.contract.lakes import lake_of, log_lines

_VERSION = (1, 36)
_OTHERS = {"demo": OtherAuthorizers.NODE}
_ASKED: dict[str, Callable[[LakeReader], Any]] = {
    "authorization": lambda reader: calibration.recorded_agreement(reader, Window(), _OTHERS, _VERSION),
    "pod-security": lambda reader: levels.recorded_agreement(reader, Window(), _VERSION[1]),
    "webhooks": lambda reader: webhooks.recorded_agreement(reader, Window(), _VERSION, _OTHERS),
}


@pytest.fixture(scope="module")
def log() -> list[bytes]:
    return log_lines()[::4]


@pytest.fixture(scope="module")
def lake(log: list[bytes], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return lake_of([log[:-50]], tmp_path_factory.mktemp("agreement"))


def answer(name: str, lake: Path) -> Any:
    with closing(open_lake(lake)) as reader:
        return _ASKED[name](reader)


@pytest.mark.parametrize("name", _ASKED)
def test_what_is_kept_says_the_same_and_new_events_are_compared(
    name: str, lake: Path, log: list[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = Path(shutil.copytree(lake, tmp_path / "lake"))
    first = answer(name, own)
    with monkeypatch.context() as patched:
        # Whoever walks requests asks for their history.
        for module in ("stages.authorization.calibration", "stages.pod_security.walk", "stages.webhooks.walk"):
            patched.setattr(f"pipeline.{module}.load_history", None)
        assert answer(name, own) == first
    file = tmp_path / "later.jsonl"
    file.write_bytes(b"\n".join(log[-50:]) + b"\n")
    with closing(Lake.open(own)) as opened:
        ingest_files(opened, [file], "demo", 1.0)
    (tmp_path / "new").mkdir()
    assert answer(name, own) == answer(name, lake_of([log[:-50], log[-50:]], tmp_path / "new"))


def test_the_kept_sums_of_roles_are_those_of_all_comparisons(demo_lake: Path) -> None:
    with closing(open_lake(demo_lake)) as reader:
        every = calibration.compare_authorization(reader, load_history(reader, (), Window()), _OTHERS)
    kept = every.summed()
    assert len(kept.compared) < len(every.compared)
    assert kept.count() == every.count()
    assert kept.confusion() == every.confusion()
    assert kept.unknown_reasons() == every.unknown_reasons()
    assert kept.disagreements() == every.disagreements()
    assert sum(every.count().values()) > 1_000


def test_the_kept_notes_of_levels_are_those_of_all_comparisons(demo_lake: Path) -> None:
    with closing(open_lake(demo_lake)) as reader:
        every = levels.compare(Walk(reader, Given({}), Window(), _VERSION[1]))
        kept = levels.recorded_agreement(reader, Window(), _VERSION[1])
    assert kept == every
    assert sum(every.compared.values()) > 10


def test_two_clusters_with_the_same_audit_ids_agree_as_each_alone(lake: Path, log: list[bytes], tmp_path: Path) -> None:
    """Each has its own bodies and its own changes of roles: the second one has only the later half of the log."""
    own = Path(shutil.copytree(lake, tmp_path / "lake"))
    later = tmp_path / "later.jsonl"
    later.write_bytes(b"\n".join(log[len(log) // 2 :]) + b"\n")
    with closing(Lake.open(own)) as opened:
        ingest_files(opened, [later], "a-later-one", 0.0)

    def compared(cluster: str) -> calibration.Agreement:
        with closing(open_lake(own, cluster=cluster)) as reader:
            return calibration.recorded_agreement(reader, Window(), {}, _VERSION)

    alone = calibration.Agreement((*compared("demo").compared, *compared("a-later-one").compared))
    both = compared("")
    assert both.count() == alone.count()
    assert both.confusion() == alone.confusion()
