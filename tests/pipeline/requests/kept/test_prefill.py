"""Derived tables that are made in advance give the verdicts of a replay without them, whenever they are made or stopped."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.derived import forget_derived
from ingest.lake import Lake
from ingest.maintain import compact, remove_retired
from pipeline.requests.prefill import prefill
from tests.pipeline.requests.kept.test_inputs import edited, kept_inputs, narrower
from tests.pipeline.requests.kept.test_inputs import spoil as spoil_inputs
from tests.pipeline.requests.kept.test_kept import (
    LATER_TS,
    arrive,
    cluster_of,
    kept_files,
    lake_of,
    replay,
    spoil,
    verdicts,
    without_kept,
)  # fmt: skip


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return lake_of(tmp_path)


def after(steps: int) -> Callable[[], bool]:
    """Says stop when it was asked so many times."""
    asked = iter(range(steps))
    return lambda: next(asked, None) is None


def merged(lake: Path) -> None:
    opened = Lake.open(lake)
    with opened.writer() as writer:
        compact(writer, LATER_TS)
        remove_retired(writer, 2 * LATER_TS)
    opened.close()


def test_the_first_replay_reads_what_was_made_in_advance(lake: Lake) -> None:
    expected = without_kept(lake.path, policies=narrower())
    shutil.rmtree(lake.path / "derived")
    assert prefill(lake.path)
    (file,), (inputs,) = kept_files(lake.path), kept_inputs(lake.path)
    found = replay(lake.path, narrower())
    assert (found, verdicts(lake.path, found)) == expected
    assert (kept_files(lake.path), kept_inputs(lake.path)) == ([file], [inputs])
    spoil(file)
    assert "spoiled" in dict(replay(lake.path, narrower()).not_evaluated)


def test_fields_made_in_advance_are_those_that_most_policies_read(lake: Lake) -> None:
    expected = without_kept(lake.path, policies=edited(3))
    shutil.rmtree(lake.path / "derived")
    prefill(lake.path)
    (inputs,) = kept_inputs(lake.path)
    found = replay(lake.path, edited(3))
    assert (found, verdicts(lake.path, found)) == expected
    spoil_inputs(inputs)
    assert replay(lake.path, edited(3)).bindings != found.bindings


@settings(max_examples=4, deadline=None)
@given(seed=st.integers(0, 10**6), order=st.randoms(use_true_random=False), cut=st.integers(1, 29), steps=st.integers(0, 9))
def test_a_stopped_step_between_any_arrivals_and_merges_changes_no_verdict(
    seed: int, order: random.Random, cut: int, steps: int
) -> None:
    events = cluster_of(seed).events
    shuffled = order.sample(events, len(events))
    with TemporaryDirectory() as one, TemporaryDirectory() as other:
        (at_once,) = arrive(Path(one), [events])
        expected = replay(at_once.path)
        for lake in arrive(Path(other), [shuffled[:cut], shuffled[cut:]]):
            prefill(lake.path, after(steps), grown=0.5)
        merged(lake.path)
        prefill(lake.path, after(steps))
        found = replay(lake.path)
        assert found == expected
        assert verdicts(lake.path, found) == verdicts(at_once.path, expected)


def test_a_stopped_step_goes_on_where_it_was(lake: Lake) -> None:
    expected = without_kept(lake.path, policies=narrower())
    shutil.rmtree(lake.path / "derived")
    assert not prefill(lake.path, after(0))
    assert not kept_files(lake.path)
    assert list((lake.path / "derived" / "unfinished").glob("slice-*"))
    assert prefill(lake.path)
    assert not (lake.path / "derived" / "unfinished").exists()
    found = replay(lake.path, narrower())
    assert (found, verdicts(lake.path, found)) == expected


def test_few_new_events_leave_history_to_the_next_replay(tmp_path: Path) -> None:
    events = cluster_of(4).events
    lakes = arrive(tmp_path, [events[:-2], events[-2:]])
    prefill(next(lakes).path)
    before = kept_files(tmp_path / "lake")
    lake = next(lakes)
    prefill(lake.path, grown=0.5)
    assert kept_files(lake.path) == before
    prefill(lake.path, grown=0.01)
    assert kept_files(lake.path) != before
    found = replay(lake.path)
    assert without_kept(lake.path) == (found, verdicts(lake.path, found))


def test_retention_may_come_in_between(lake: Lake) -> None:
    def retention() -> bool:
        forget_derived(lake.path)
        return False

    assert not prefill(lake.path, retention)
    assert not kept_files(lake.path)
    assert prefill(lake.path)
    assert kept_files(lake.path)


def test_an_empty_lake_needs_nothing(tmp_path: Path) -> None:
    Lake.create(tmp_path / "lake").close()
    assert prefill(tmp_path / "lake")
