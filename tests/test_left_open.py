"""A database that stays open is found, with the test that opened it; one that somebody may still close is not."""

from __future__ import annotations

import sqlite3

from tests.left_open import left_open, left_open_at_all


def test_a_database_that_nothing_uses_is_found_and_closed() -> None:
    used, unused = sqlite3.connect(":memory:"), sqlite3.connect(":memory:")
    assert left_open() == []
    del unused
    (found,) = left_open()
    assert "test_a_database_that_nothing_uses_is_found_and_closed (call) left a database open" in found
    assert "used, unused = sqlite3.connect" in found
    used.close()
    del used
    assert left_open() == []


def test_a_database_of_what_survived_a_look_is_found_in_the_end() -> None:
    kept: list[object] = [sqlite3.connect(":memory:")]
    kept.append(kept)  # only the collector ends it
    assert left_open() == []
    del kept
    (found,) = left_open() or left_open_at_all()
    assert "test_a_database_of_what_survived_a_look_is_found_in_the_end (call) left a database open" in found
