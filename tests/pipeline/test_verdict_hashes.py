"""Every stage gives the verdicts that it gave before, row for row: on a new lake, again, and after later events.

`python -m tests.verdict_hashes --write` writes the hashes, where a case shows that verdicts were wrong. With `--without COLUMN` it
tells whether other columns changed.
"""

from __future__ import annotations

from pathlib import Path

from tests.verdict_hashes import Asking, bundled_lines, changed, kept_lines


def test_verdicts_on_the_bundled_log_are_those_of_before(tmp_path: Path) -> None:
    assert changed("bundled", bundled_lines(Asking(tmp_path))) == []


def test_an_order_of_arrival_and_a_second_run_change_no_verdict() -> None:
    kept = kept_lines("bundled")
    alike = {"without its end, again": "without its end", "its end came later": "whole", "its end came later, again": "whole"}
    for name, told in kept.items():
        replay, stage, what = name.split(", ", 2)
        assert kept[f"{replay}, {stage}, {alike.get(what, what)}"] == told, name
