"""The command line: options become library calls, results become tables, errors become one line and an exit code.

Exit codes, the same everywhere: 0 done, 1 a gate said no, 2 bad usage or bad input, 3 not enough evidence, 4 finished in part,
130 interrupted (what was committed stays).
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer

from ingest.errors import HindcastError, InputError
from ingest.holds import hold_files

from .context import Context
from .damage import ENGINE_ERRORS, explained

EXIT_IN_PART = 4
EXIT_INTERRUPTED = 130

# In the order in which `--help` lists them. Each is the function `command` of a module of api/commands.
COMMANDS = (
    "demo",
    "init",
    "ingest",
    "serve",
    "doctor",
    "compact",
    "expire",
    "violations",
    "replay",
    "calibrate",
    "readiness",
    "exemptions",
    "gate",
    "watch",
)

# These ask a lake several times over, and every time about what it held when they began.
_REPLAYING = ("replay", "calibrate", "readiness", "exemptions", "gate")


def application(names: Sequence[str] = COMMANDS) -> typer.Typer:
    """The command line with some of its commands. To load them all takes longer than most of them run."""
    app = typer.Typer(
        name="hindcast",
        help="Say whether a Kubernetes admission policy can go from Warn/Audit to Deny, from the audit log of your own cluster.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        callback=_options,
    )
    for name in names:
        app.command(name)(_finishing(import_module(f".commands.{name}", __package__).command))
    return app


def _options(
    context: typer.Context,
    lake: Annotated[
        Path,
        typer.Option(envvar="HINDCAST_LAKE", help="The folder that keeps the events.", show_default=True),
    ] = Path("hindcast-lake"),
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, only results and errors.")] = False,
) -> None:
    context.obj = Context(lake=lake, quiet=quiet)
    if context.invoked_subcommand in _REPLAYING:
        context.with_resource(hold_files(lake, time.time()))


def _finishing(command: Callable[..., int | None]) -> Callable[..., None]:
    """The command as typer wants it: ends with an exit code."""

    @wraps(command)
    def finish(*arguments: Any, **options: Any) -> None:
        try:
            code = command(*arguments, **options)
        except RecursionError as error:
            raise InputError(
                "what was given is nested too deep, or refers to itself", "look for a YAML alias inside itself"
            ) from error
        except BrokenPipeError:
            raise
        except ENGINE_ERRORS as error:
            context: typer.Context = options["context"]
            if (known := explained(error, context.obj.lake)) is None:
                raise
            raise known from error
        defects = options["context"].obj.defects if "context" in options else ()
        for defect in defects:
            _complain(defect)
        raise typer.Exit(code or (EXIT_IN_PART if defects else 0))

    return finish


def _asked_for(arguments: Sequence[str]) -> Sequence[str]:
    """The commands that these arguments may mean: those that stand among them, or all for help and for what is none."""
    named = [name for name in COMMANDS if name in arguments]
    return named if named and arguments[0] != "--help" else COMMANDS


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; never raises for a user's mistake."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    with _interruptions() as interruptions:
        try:
            code = _run(arguments)
        except KeyboardInterrupt:
            code = EXIT_INTERRUPTED
        except Exception as error:
            # When it is interrupted DuckDB ends a query with an error of its own.
            if interruptions:
                code = EXIT_INTERRUPTED
            elif isinstance(error, HindcastError):
                _complain(str(error))
                code = error.exit_code
            else:
                raise
    if code == EXIT_INTERRUPTED:
        _complain("interrupted; what was committed before stays, run the command again to go on")
    return code


def _run(arguments: list[str]) -> int:
    try:
        application(_asked_for(arguments))(args=arguments)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BrokenPipeError:
        # The reader of our output went away (`| head`); that is no error of ours. Keep Python from flushing into the closed pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


@contextmanager
def _interruptions() -> Iterator[list[int]]:
    """Collects the interruptions that arrive: Ctrl-C, and what a scheduler ends a job with."""
    arrived: list[int] = []

    def interrupt(number: int, frame: FrameType | None) -> None:
        arrived.append(number)
        raise KeyboardInterrupt

    usual = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
    before = {number: handler for number, handler in usual.items() if signal.getsignal(number) is handler}
    if threading.current_thread() is not threading.main_thread():
        before.clear()  # somebody else looks after them, as whoever has set other handlers does
    for number in before:
        signal.signal(number, interrupt)
    try:
        yield arrived
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _complain(message: str) -> None:
    sys.stderr.write(f"hindcast: {message}\n")


def main() -> None:
    """The console script."""
    code = run()
    # What is cleaned up at exit takes a moment, and processes that wait for each other would wait for ever if it was cut short.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.exit(code)
