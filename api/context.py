"""The context of every command: the lake, and how to show progress."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ingest.acting import visible
from ingest.counted import counted
from ingest.owning import telling_waits

if TYPE_CHECKING:  # `hindcast --help` needs no replay
    from pipeline.runs import Defect


class Step(Protocol):
    """Called with the finished part and the total, in the same unit; the total is 0 while it is unknown."""

    def __call__(self, done: int, total: int) -> None: ...


@dataclass(frozen=True, slots=True)
class Context:
    """The global options of one invocation."""

    lake: Path
    quiet: bool = False
    speaks: bool = True  # a job of the server does not: its answer has the warnings
    memory_bytes_max: int = 0  # for each process of a command that evaluates policies; 0: three quarters of the machine's memory
    # Policies that Hindcast failed to judge, as sentences. The command goes on without them, and its end names them.
    defects: list[str] = field(default_factory=list)
    # What was given and has no effect, or not the one that it seems to have. Reports have these sentences among their caveats.
    warnings: list[str] = field(default_factory=list)

    def say(self, message: str) -> None:
        """One line of progress to standard error: what happens now, or which file was written. Silent with --quiet."""
        if not self.quiet:
            sys.stderr.write(visible(message) + "\n")

    def tell(self, sentence: str) -> None:
        """A part of the answer, to standard error, also with --quiet: it hides progress and nothing else."""
        if self.speaks:
            sys.stderr.write(visible(sentence) + "\n")

    def tell_window(self, words: str) -> None:
        """Which requests the answer is about; see Window.words. The whole log is what everybody expects."""
        if words.startswith("window: whole log"):
            self.say(words)
        else:
            self.tell(words)

    def warn(self, sentence: str) -> None:
        """One line to standard error, also with --quiet: a job that hides progress must not hide that it tests nothing."""
        if sentence not in self.warnings:
            self.warnings.append(sentence)
            if self.speaks:
                sys.stderr.write(visible(sentence) + "\n")

    def note_defects(self, defects: Iterable[Defect]) -> None:
        """Make the end of the command name the policies that Hindcast failed to judge."""
        for defect in defects:
            where = f" in {counted(defect.requests, 'request')}" if defect.requests else ""
            sentence = f"policy {defect.policy} could not be judged{where}: {defect.why}"
            if sentence not in self.defects:
                self.defects.append(sentence)

    def leave_out(self, things: Iterable[object]) -> None:
        """Make the end of the command name recorded objects that are unknown."""
        self.defects.extend(f"left out: {each}" for each in things)

    @contextmanager
    def progress(self, title: str) -> Iterator[Step]:
        """A bar on a terminal, plain lines at every tenth elsewhere, nothing with --quiet."""
        with telling_waits(lambda sentence: self.say(sentence) if sentence else None), self._shown(title) as step:
            yield step

    @contextmanager
    def _shown(self, title: str) -> Iterator[Step]:
        if self.quiet:
            yield lambda done, total: None
        elif sys.stderr.isatty():
            from rich.console import Console  # imported late: this import would take most of the time of `hindcast --help`
            from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

            console = Console(stderr=True)
            columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
            with Progress(*columns, console=console, transient=True) as bar:
                task = bar.add_task(title, total=None)
                yield lambda done, total: bar.update(task, completed=done, total=total or None)
        else:
            yield _plain_lines(title)


def _plain_lines(title: str) -> Step:
    tenth = 0

    def step(done: int, total: int) -> None:
        nonlocal tenth
        reached = done * 10 // total if total else 0
        if reached > tenth:
            tenth = reached
            sys.stderr.write(f"{title}: {reached * 10} %\n")

    return step
