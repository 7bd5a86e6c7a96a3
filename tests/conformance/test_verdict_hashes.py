"""Every stage gives the verdicts on recordings that it gave before, row for row: see tests/pipeline/test_verdict_hashes.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.verdict_hashes import Asking, changed, recorded_lines

pytestmark = pytest.mark.conformance


def test_verdicts_on_recordings_are_those_of_before(shared: Path, tmp_path: Path) -> None:
    assert shared.is_dir()
    assert changed("recorded", recorded_lines(Asking(tmp_path))) == []
