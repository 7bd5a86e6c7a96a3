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
    ends = ("without its end", "without its end, again"), ("whole", "its end came later", "its end came later, again")
    for one, *others in ends:
        for name, told in kept.items():
            if name.endswith(f", {one}"):
                replay = name.removesuffix(one)
                assert {kept[replay + other] for other in others} == {told}, name
