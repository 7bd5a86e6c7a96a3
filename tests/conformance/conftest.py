"""Where the shared corpora and recordings lie: beside the checkout. Elsewhere these suites skip, with the reason."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with `corpora/` and `data/`. Required where HINDCAST_REQUIRE_SHARED is set."""
    folder = Path(__file__).resolve().parents[2].parent / "shared"
    if not (folder / "corpora").is_dir():
        if os.environ.get("HINDCAST_REQUIRE_SHARED"):
            pytest.fail("the shared corpora are required here and not there; put them in ../shared beside the checkout")
        pytest.skip("no ../shared beside the checkout: conformance corpora are not part of the project")
    return folder
