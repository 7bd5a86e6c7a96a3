"""The bundled audit log as a lake, made once for all tests that want a real log."""

from __future__ import annotations

import atexit
import gc
import json
import math
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import redirect_stdout
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from api.cli import run
from ingest.lake import Lake
from ingest.sources.files import ingest_files
from ingest.sources.snapshot import ingest_snapshot
from pipeline import load_policy_set, plan_replay, plan_replay_from_log, run_replay
from queries import open_lake
from tests import left_open
from tests.sharing import STRETCHED_DELAY, only_read, shared_folder, shared_lake, written
from tests.storage import Storage, running_storage

# The width of a terminal, which pytest-xdist gives to its workers, and a file of the user's own change what commands print.
os.environ.pop("COLUMNS", None)
os.environ["HINDCAST_CONFIG"] = ""
# The user's own cache neither decides a test nor is changed by one. The processes of a run share the cache that the first one made.
if "PYTEST_XDIST_WORKER" not in os.environ:
    os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp(prefix="hindcast-tests-")
    atexit.register(shutil.rmtree, os.environ["XDG_CACHE_HOME"], ignore_errors=True)

left_open.watch()

# How long an example takes is the machine's affair: a busy one is not a failure. The examples are those of the test's own text, so
# that a change is judged by what it changes. `make search` draws others each time.
settings.register_profile("hindcast", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
settings.register_profile("search", settings.get_profile("hindcast"), derandomize=False, max_examples=2_000)
settings.load_profile("hindcast")

# The seconds of each test file ("*") and of its long tests, as `make seconds` measured them; no test's result depends on them.
SECONDS = Path(__file__).parent / "seconds.json"
_LONG_SECONDS = 2.0
# The first files make the demonstration. Files that wait for it come after some that do not.
_FIRST = ("tests/test_documents.py", "tests/test_packaging.py")

DATA = Path(__file__).parents[1] / "api" / "demo"


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """One process more than cores: the others work while one waits for a server, a disk, or what another process makes."""
    return (len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1) + 1


def pytest_collection_finish(session: pytest.Session) -> None:
    """Modules and tests stay to the end: the collector of garbage need not look at them again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 10)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the long files; `make test` hands out files in this order.

    A long file that begins last keeps one process busy while the others have no work.

    Of several tests with one node id, pytest-xdist would run one.
    """
    shared = [name for name, count in Counter(item.nodeid for item in items).items() if count > 1]
    if shared:
        raise pytest.UsageError(f"several tests have one node id: {', '.join(shared)}")
    if items and items[0].config.getoption("quick_until", None) is not None:
        return  # `make quick` gives the nearest files first
    took = json.loads(SECONDS.read_text(encoding="utf-8"))
    order = {name: -float(tests["*"]) for name, tests in took.items()} | dict.fromkeys(_FIRST, -math.inf)
    items.sort(key=lambda item: order.get(item.nodeid.partition("::")[0], 0.0))


def pytest_addoption(parser: pytest.Parser) -> None:
    """See `make seconds`."""
    parser.addoption("--keep-seconds", action="store_true", help="write what tests took to tests/seconds.json")


def pytest_configure(config: pytest.Config) -> None:
    """Only in the process that hands out tests."""
    if config.getoption("keep_seconds") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Seconds())


class _Seconds:
    """Adds up what tests take, with what they set up."""

    def __init__(self) -> None:
        self._took: dict[str, Counter[str]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        file, _, test = report.nodeid.partition("::")
        found = self._took.setdefault(file, Counter())
        found["*"] += report.duration  # type: ignore[assignment]
        found[test] += report.duration  # type: ignore[assignment]

    def pytest_sessionfinish(self) -> None:
        kept = {
            file: {test: round(took, 1) for test, took in sorted(tests.items()) if took >= _LONG_SECONDS or test == "*"}
            for file, tests in sorted(self._took.items())
        }
        SECONDS.write_text(json.dumps(kept, indent=0, ensure_ascii=False) + "\n", encoding="utf-8")


@pytest.fixture(scope="session", autouse=True)
def closed_databases_at_all() -> Iterator[None]:
    """What no single module was found to leave open. Libraries warn, too, of what the interpreter cannot collect at its end."""
    yield
    if found := left_open.left_open_at_all():
        pytest.fail("\n".join(found))


@pytest.fixture(scope="module", autouse=True)
def closed_databases() -> Iterator[None]:
    """What a module's tests open, they or the product close, on error paths too. Older Pythons than 3.13 do not warn of it."""
    yield
    if found := left_open.left_open():
        pytest.fail("\n".join(found))


@pytest.fixture(autouse=True)
def lakes_only_read() -> Iterator[None]:
    """A test that keeps a run in a lake of all tests is named, on whichever process it runs."""
    yield
    if found := written():
        pytest.fail(f"the test kept a run in {', '.join(map(str, found))}; let it copy the lake")


@pytest.fixture(scope="session")
def demo_lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake of the bundled log with its own times, and the snapshot from before its first policy. Tests only read it."""

    def make(path: Path) -> None:
        lake = Lake.create(path)
        ingest_files(lake, [DATA / "audit.jsonl.zst"], "demo", 1.0)
        ingest_snapshot(lake, [DATA / "snapshot"], "demo", datetime(2026, 11, 21, 3, 24, 34, 88216, tzinfo=UTC))
        lake.close()

    return only_read(shared_lake(tmp_path_factory, "demo", make))


@pytest.fixture(scope="session")
def calibrated_lake(demo_lake: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The lake of the bundled log in which the policies that were bound are replayed already. Tests only read it, or copy it.

    A first report on it needs no first pass over all events. Tests of the first pass itself take `demo_lake`.
    """

    def make(path: Path) -> None:
        shutil.copytree(demo_lake, path)
        reader = open_lake(path)
        run_replay(plan_replay_from_log(reader), path)
        reader.close()

    return only_read(shared_lake(tmp_path_factory, "calibrated", make))


@pytest.fixture(scope="session")
def demonstration(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What two demonstrations left in `out`, the first with all details, and what they printed: `details.txt` and `screen.txt`.

    Tests only read it.
    """

    def make(folder: Path) -> None:
        out = ["--out", str(folder / "out")]
        with pytest.MonkeyPatch.context() as patch:
            for name, arguments in (("details", ["demo", "--details", *out]), ("screen", ["-q", "demo", *out])):
                with (folder / f"{name}.txt").open("w") as shown, redirect_stdout(shown):
                    assert run(arguments) == 0
                shutil.copy(folder / "out" / "report.html", folder / f"{name}.html")
                # The second one is shown on a terminal of this width.
                patch.setenv("COLUMNS", "80")

    return shared_folder(tmp_path_factory, "demonstration", make)


@pytest.fixture(scope="session")
def stretched_lake(demonstration: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demonstration's lake: the bundled log with its times stretched to three weeks. Tests add runs to it and nothing else.

    The demonstration's policies, and those that were bound, are replayed already.
    """

    def make(path: Path) -> None:
        shutil.copytree(demonstration / "out" / "lake", path)
        reader = open_lake(path)
        given = run_replay(plan_replay(reader, load_policy_set([DATA / "policies"])), path)
        # The demonstration's other replay takes the recording's delay.
        for folder in (path / "runs").iterdir():
            if folder.name != given.run_id:
                shutil.rmtree(folder)
        run_replay(plan_replay_from_log(reader, change_delay=STRETCHED_DELAY), path)
        reader.close()

    return shared_lake(tmp_path_factory, "stretched", make)


@pytest.fixture(scope="session")
def storage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Storage]:
    """A running S3-compatible server with a REST catalog; tests use lakes of different names in it."""
    with running_storage(tmp_path_factory.mktemp("weed")) as running:
        yield running
