"""A plugin of pytest: it ends a run at a time, keeps the given order of files, and still fails if a test failed before the end."""

from __future__ import annotations

import time
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """The time as seconds since the epoch, and a file for the names of tests that fail: a run may be cut off within a test."""
    parser.addoption("--quick-until", type=float, default=None)
    parser.addoption("--quick-failed", type=Path, default=None)


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Only in the process that hands out tests."""
    until = config.getoption("quick_until")
    if until is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Ending(until, config.getoption("quick_failed")))


class Ending:
    """Ends the run between two tests."""

    def __init__(self, until: float, failed: Path) -> None:
        self._until = until
        self._failed = failed
        self._session: pytest.Session | None = None
        self._is_over = False

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Keep the session, which this plugin ends."""
        self._session = session

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """One test more."""
        if report.failed:
            with self._failed.open("a", encoding="utf-8") as names:
                names.write(report.nodeid + "\n")
        if time.time() > self._until and self._session is not None and not self._is_over:
            self._is_over = True
            self._session.shouldstop = "the time of `make quick` is over"

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """What the time cut off did not fail."""
        if self._is_over:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED if session.testsfailed else pytest.ExitCode.OK
