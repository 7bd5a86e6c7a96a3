"""One unit of work in a worker that shares only the lake with the driver, such as a worker of a cluster.

The worker gets the files that the unit reads, and returns the files of the part. So the driver alone writes the run, and workers
that do the same unit do not meet. Before its first unit of a run, a worker compares its code and its lake with those of the driver.
"""

from __future__ import annotations

import gc
import hashlib
import pickle
import platform
import tempfile
from collections.abc import Mapping
from functools import cache
from importlib import import_module, metadata
from pathlib import Path
from typing import NamedTuple, TypeAlias

from ingest.errors import LakeError
from ingest.published.target import is_url
from queries import LakeReader
from queries.catalog import LakeFiles

from ..requests.kept.facts import facts_folder
from .executors import Job, Make, TakesInputs, Task, Worker
from .parts import making
from .plan import RunPlan
from .processes import COLLECTING
from .window import Window, lake_digest

# The content of files, by their paths in the folder of the parts.
Files: TypeAlias = Mapping[str, bytes]

_PACKAGES = ("ingest", "queries", "pipeline")
_LIBRARIES = ("cel-python", "duckdb", "google-re2", "msgspec", "pyarrow")
_held: dict[bytes, Held] = {}  # of a worker: that of one run


class Order(NamedTuple):
    """What workers need of a run. `state` names the content of the lake, and `facts` are the facts of published files."""

    plan: RunPlan
    files: LakeFiles
    make: Make
    state: str
    facts: Files


class Held(NamedTuple):
    """What a worker keeps of a run until it gets a unit of another run."""

    worker: Worker
    folder: tempfile.TemporaryDirectory[str]


def order_of(job: Job) -> bytes:
    """The order of a run, to be sent once. A worker opens it after the code was compared, because other code may not read it."""
    files = job.reader.files.absolute()
    facts: dict[str, bytes] = {}
    if files.lake and is_published(files):
        facts = {file.name: file.read_bytes() for file in facts_folder(files.lake).glob("*.json")}
    return pickle.dumps(Order(job.plan, files, job.make, lake_digest(job.reader, Window()), facts))


def is_published(files: LakeFiles) -> bool:
    """Whether the files are objects of a store, which workers reach without the folder of the lake."""
    return any(map(is_url, files.events))


@cache
def code_name() -> str:
    """The code that decides about verdicts: its digest, and the versions of Python and of libraries."""
    digest = hashlib.sha256()
    for package in _PACKAGES:
        folder = Path(str(import_module(package).__file__)).parent
        for file in sorted(path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts):
            digest.update(f"{package}/{file.relative_to(folder)}\0".encode() + file.read_bytes())
    versions = (f"{name} {metadata.version(name)}" for name in _LIBRARIES)
    return ", ".join((f"code {digest.hexdigest()[:12]}", f"Python {platform.python_version()}", *versions))


def inputs_of(task: Task, parts: Path) -> Files:
    """The files that a task reads in addition to those that every task of its stage reads: see `inputs_of_all`."""
    if not isinstance(task, TakesInputs):
        return {}
    with tempfile.TemporaryDirectory(prefix="hindcast-") as folder:
        task.copy_inputs(parts, Path(folder))
        return _read(Path(folder))


def inputs_of_all(parts: Path) -> Files:
    """The files that every task of a stage may read."""
    return {file.name: file.read_bytes() for file in sorted(parts.glob("*.arrow"))}


def make_part(code: str, order: bytes, shared: Files, inputs: Files, task: bytes) -> Files:
    """Do a pickled task in this worker; returns the files of its part.

    Raises LakeError if the code or the lake of this worker is not that of the driver, and what the task raises.
    """
    worker = _worker_of(code, order)
    with tempfile.TemporaryDirectory(prefix="hindcast-") as folder:
        parts = Path(folder)
        _write(parts, {**shared, **inputs})
        unit: Task = pickle.loads(task)
        unit.do(worker, parts, parts)
        return _read(parts / unit.name)


def put_part(parts: Path, crew: Path, name: str, files: Files) -> None:
    """Put a part that a worker made into its place."""
    with making(parts, name, crew) as folder:
        _write(folder, files)


def _worker_of(code: str, packed: bytes) -> Worker:
    key = hashlib.sha256(packed).digest()
    if key not in _held:
        _let_go()
        _held[key] = _begin(code, packed)
    return _held[key].worker


def _begin(code: str, packed: bytes) -> Held:
    if code != code_name():
        raise LakeError(
            f"{platform.node()}: this worker has {code_name()}; the driver has {code}",
            "install the same Hindcast and the same Python packages on every node",
        )
    order: Order = pickle.loads(packed)
    folder = tempfile.TemporaryDirectory(prefix="hindcast-")
    reader = _open(order, Path(folder.name))
    gc.set_threshold(*COLLECTING)
    return Held(order.make(order.plan, reader), folder)


def _open(order: Order, folder: Path) -> LakeReader:
    """A reader of the files that the driver reads. Raises LakeError if this worker sees other content."""
    files = order.files
    if is_published(files):
        # The folder that shows a published lake is on the driver's machine, so the facts of its files come with the order.
        files = LakeFiles(files.events, files.objects, files.repeats, (), files.event_spans, str(folder), files.cluster)
        facts_folder(folder).mkdir(parents=True)
        _write(facts_folder(folder), order.facts)
    hint = "give every node the present lake at the same path, or publish the lake, and replay again"
    reader = None
    try:
        reader = LakeReader(lambda: files, threads=1)
        found = lake_digest(reader, Window())
    except LakeError as error:
        if reader is not None:
            reader.close()
        raise LakeError(f"{platform.node()}: this worker cannot read the lake of the plan: {error.message}", hint) from error
    if found != order.state:
        reader.close()
        raise LakeError(f"{platform.node()}: this worker sees a lake with digest {found}; the plan needs {order.state}", hint)
    return reader


def _let_go() -> None:
    for held in _held.values():
        held.worker.close()
        held.folder.cleanup()
    _held.clear()


def _read(folder: Path) -> Files:
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


def _write(folder: Path, files: Files) -> None:
    for name, content in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
