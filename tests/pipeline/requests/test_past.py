"""The history of a lake is loaded once per process, and again after the lake or the question has changed."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from pipeline.history.world import LogHistory
from pipeline.policies.model import ParamKind
from pipeline.requests.past import load_history
from pipeline.runs.window import Window
from queries import open_lake
from tests.pipeline.requests.kept.test_kept import arrive, cluster_of


def history(lake: Path, window: Window | None = None, *params: ParamKind) -> LogHistory:
    with closing(open_lake(lake, threads=1)) as reader:
        return load_history(reader, params, window or Window())


def test_a_process_shares_the_history_of_a_lake_until_files_arrive(tmp_path: Path) -> None:
    events = cluster_of().events
    lakes = arrive(tmp_path, [events[:5], events[5:]])
    before = history(next(lakes).path)
    lake = next(lakes).path
    after = history(lake)
    assert after is not before
    assert history(lake) is after


def test_a_history_holds_for_one_window_and_its_params_alone(tmp_path: Path) -> None:
    (lake,) = arrive(tmp_path, [cluster_of().events])
    whole = history(lake.path)
    assert history(lake.path, Window(until=datetime(2026, 1, 1, tzinfo=UTC))) is not whole
    assert history(lake.path) is whole
    assert history(lake.path, None, ParamKind("v1", "ConfigMap")) is not whole
