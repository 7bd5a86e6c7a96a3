"""The lag counts what was acknowledged and is not in the lake: never less, whatever is sealed, stored in part or started again."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice, repeat
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.lake import Lake
from ingest.spooling import drain as drain_module
from ingest.spooling.drain import batches_done, drain, lag_of
from ingest.spooling.lag import Lag
from ingest.spooling.spool import Spool, sealed_segments

Event = Callable[..., bytes]
_STEPS = st.one_of(
    st.tuples(st.just("append"), st.integers(1, 4)),
    st.tuples(st.just("drain"), st.integers(1, 3)),
    st.tuples(st.sampled_from(("seal", "restart")), st.just(0)),
)


@settings(max_examples=40, deadline=None)
@given(steps=st.lists(_STEPS, max_size=14))
def test_the_lag_is_what_is_not_stored(
    tmp_path_factory: pytest.TempPathFactory, event: Event, steps: list[tuple[str, int]]
) -> None:
    folder = tmp_path_factory.mktemp("lag")
    lake = Lake.create(folder)
    spool = Spool(folder / "spool")
    batches: list[tuple[int, float]] = []  # events and time of each, as acknowledged; segments are stored in this order
    stored = 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(drain_module, "UNIT_EVENTS_MAX", 3)
        for name, count in steps:
            if name == "append":
                at = float(len(batches))
                first = sum(events for events, _ in batches)
                spool.append("c", f"digest-{at}", at, [event(first + number) for number in range(count)])
                batches.append((count, at))
            elif name == "seal":
                spool.seal()
            elif name == "restart":
                spool.close()
                spool = Spool(folder / "spool")
            else:
                with lake.writer() as writer:
                    answers = islice(repeat(False), count)
                    stored += drain(writer, spool.directory, lambda answers=answers: next(answers, True)).read
            waiting = _without(batches, stored)
            expected = Lag(sum(events for events, _ in waiting), waiting[0][1] if waiting else None)
            assert spool.measure_lag(batches_done(lake.manifest)) == expected
            assert lag_of(lake) == expected
    spool.close()
    lake.close()


def _without(batches: list[tuple[int, float]], events: int) -> list[tuple[int, float]]:
    """What is left of batches once the first so many events are taken; the drain takes whole ones."""
    left = list(batches)
    while left and events >= left[0][0]:
        events -= left.pop(0)[0]
    assert events == 0
    return left


def test_the_age_counts_from_the_acknowledgement() -> None:
    assert Lag(3, 100.0).seconds(130.5) == 30.5
    assert Lag(3, 100.0).seconds(99.0) == 0.0  # a clock that was set back
    assert Lag().seconds(1e9) == 0.0


def test_a_segment_that_was_stored_in_a_moment_of_inattention_waits_no_more(lake: Lake, tmp_path: Path, event: Event) -> None:
    with Spool(tmp_path / "spool") as spool:
        spool.append("c", "digest", 1.0, [event(1)])
        spool.seal()
        done = batches_done(lake.manifest)
        with lake.writer() as writer:
            drain(writer, spool.directory)
        assert sealed_segments(spool.directory) == []
        assert spool.measure_lag(done) == Lag()
