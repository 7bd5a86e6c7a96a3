"""Which lines of the server's libraries a person sees on a terminal."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
import structlog

from api import logs


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    """Leave logging as it was."""
    root, server = logging.getLogger(), logging.getLogger("uvicorn.error")
    handlers, levels = root.handlers[:], (root.level, server.level)
    yield
    root.handlers[:] = handlers
    root.setLevel(levels[0])
    server.setLevel(levels[1])
    structlog.reset_defaults()


@pytest.mark.parametrize(
    ("level", "as_json", "is_shown"),
    [("info", False, False), ("debug", False, True), ("info", True, True), ("warning", True, False)],
)
def test_a_person_sees_the_steps_of_a_start_only_at_debug(
    capsys: pytest.CaptureFixture[str], level: str, as_json: bool, is_shown: bool
) -> None:
    logs.configure(level, as_json=as_json)
    server = logging.getLogger("uvicorn.error")
    server.info("Started server process")
    server.warning("a request was not HTTP")
    logging.getLogger("hindcast.query").error("query_stuck")
    written = capsys.readouterr().err
    assert ("Started server process" in written) is is_shown
    assert "a request was not HTTP" in written
    assert "query_stuck" in written
