"""The command line: options become library calls, results become tables, errors become one line and an exit code.

Exit codes, the same everywhere: 0 done, 1 a gate failed, 2 bad usage or bad input, 3 not enough evidence, 4 finished in part, 130
interrupted (finished parts are kept).
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, wraps
from importlib import import_module
from inspect import Parameter, signature
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer

from ingest.acting import visible
from ingest.errors import HindcastError, InputError
from ingest.holds import hold_files

from .command_help import COMMANDS, HELP_OPTIONS, Command, Commands
from .configuration import Configuration
from .context import Context
from .printing.option_words import name_values
from .printing.pipe import patient, readable
from .stages import OF_STAGES

EXIT_IN_PART = 4
EXIT_INTERRUPTED = 130
_DISTRIBUTION = "kube-hindcast"

_LAKE_HELP = "The folder that keeps the events, or the URL of a published lake."
_QUIET_HELP = "Hide progress."
_MEMORY_HELP = "Memory limit of each process that evaluates policies; 0: three quarters of the machine."
_DEFAULT_LAKE = Path("hindcast-lake")

# These commands query a lake several times, and always the files that it held at their start.
_REPLAYING = ("replay", "calibrate", "readiness", "fleet", "exemptions", "rollout", "gate", "policy", "schema")
# These commands say something of clusters by name, without a report whose caveats tell of a name that two clusters share.
_NAMING = (
    "replay",
    "calibrate",
    "exemptions",
    "rollout",
    "policy",
    "schema",
    "watch",
    "violations",
    "explain",
    "webhooks",
    "least-privilege",
    "pod-security",
    "stack",
    "doctor",
    "runs",
    "publish",
    "sql",
)
# These commands evaluate policies under a memory limit.
_EVALUATING = (*_REPLAYING, "watch")


def application() -> typer.Typer:
    """The command line."""
    return typer.Typer(
        name="hindcast",
        cls=Commands,
        context_settings=HELP_OPTIONS,
        help="Replay Kubernetes admission policies over your audit log, and decide whether they may go from Warn or Audit to Deny.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,  # help in boxes would cut off option names on a narrow terminal
        callback=_options,
    )


@cache
def _loaded(name: str) -> Any:
    """One command as typer runs it. It is made once in a process, also where that runs many commands."""
    single = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    module = OF_STAGES.get(name, f"commands.{name.replace('-', '_')}")
    single.command(name, cls=Command, context_settings=HELP_OPTIONS)(_finishing(import_module(f".{module}", __package__).command))
    return name_values(typer.main.get_command(single))


Commands.load = staticmethod(_loaded)


def _show_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        from ingest.manifest import MANIFEST_VERSION

        typer.echo(f"hindcast {version(_DISTRIBUTION)} (lake format {MANIFEST_VERSION})")
        raise typer.Exit


def _options(
    context: typer.Context,
    lake: Annotated[
        Path | None, typer.Option(envvar="HINDCAST_LAKE", metavar="PATH", help=_LAKE_HELP, show_default=str(_DEFAULT_LAKE))
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help=_QUIET_HELP)] = False,
    memory_bytes_max: Annotated[
        int | None, typer.Option(envvar="HINDCAST_MEMORY_BYTES_MAX", metavar="NUMBER", min=0, help=_MEMORY_HELP, show_default="0")
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and the lake's format.")
    ] = False,
) -> None:
    configuration = Configuration.load(os.environ, COMMANDS)
    memory = configuration.memory_bytes_max if memory_bytes_max is None else memory_bytes_max
    context.obj = Context(lake or configuration.lake or _DEFAULT_LAKE, quiet or configuration.quiet, memory_bytes_max=memory)
    if (name := context.invoked_subcommand) in COMMANDS:
        command = context.command.get_command(context, name)  # type: ignore[attr-defined]
        context.default_map = {name: configuration.defaults(name, command, os.environ)}


def _with_global_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command with the options that all commands share, which may come before or after its name."""

    @wraps(command)
    def run_with(
        *arguments: Any, lake: Path | None = None, quiet: bool = False, memory_bytes_max: int | None = None, **options: Any
    ) -> Any:
        context: typer.Context = options["context"]
        own: Context = context.obj
        memory = own.memory_bytes_max if memory_bytes_max is None else memory_bytes_max
        place = lake or own.lake
        if ":/" in str(place) and not options.get("server"):  # with --server, another machine reads its lake
            from .published import local_lake  # no other lake needs this

            place = local_lake(place)
        own = context.obj = replace(own, lake=place, quiet=quiet or own.quiet, memory_bytes_max=memory)
        if context.info_name in _EVALUATING:
            from .confinement import bounded_memory, command_memory_bytes

            context.with_resource(bounded_memory(command_memory_bytes(memory)))
        if context.info_name in _REPLAYING and not options.get("server"):
            context.with_resource(hold_files(own.lake, time.time()))
        return command(*arguments, **options)

    given = signature(command, eval_str=True)
    more = [
        Parameter("lake", Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[Path | None, typer.Option(help=_LAKE_HELP)]),
        Parameter(
            "quiet",
            Parameter.KEYWORD_ONLY,
            default=False,
            annotation=Annotated[bool, typer.Option("--quiet", "-q", help=_QUIET_HELP)],
        ),
    ]
    if command.__module__.rpartition(".")[2] in _EVALUATING:
        memory_option = Annotated[int | None, typer.Option(min=0, help=_MEMORY_HELP)]
        more.append(Parameter("memory_bytes_max", Parameter.KEYWORD_ONLY, default=None, annotation=memory_option))
    run_with.__signature__ = given.replace(parameters=[*given.parameters.values(), *more])  # type: ignore[attr-defined]
    return run_with


def _finishing(command: Callable[..., int | None]) -> Callable[..., None]:
    """The command in typer's form: it ends with an exit code."""

    command = _with_global_options(command)

    @wraps(command)
    def finish(*arguments: Any, **options: Any) -> None:
        try:
            code = command(*arguments, **options)
        except RecursionError as error:
            raise InputError("the input is nested too deep, or refers to itself", "look for a YAML alias inside itself") from error
        except MemoryError as error:
            from .confinement import out_of_memory

            raise out_of_memory(error) from error
        except (HindcastError, typer.Exit, typer.Abort):
            raise
        except Exception as error:
            from .damage import ENGINE_ERRORS, explained  # loads every engine

            context: typer.Context = options["context"]
            if not isinstance(error, ENGINE_ERRORS) or (known := explained(error, context.obj.lake)) is None:
                raise
            raise known from error
        if "context" in options and options["context"].info_name in _NAMING and not options.get("server"):
            from .shared_names import warn_of

            warn_of(options["context"].obj)
        defects = options["context"].obj.defects if "context" in options else ()
        for defect in defects:
            _complain(defect)
        raise typer.Exit(code or (EXIT_IN_PART if defects else 0))

    return finish


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; never raises for a user's mistake."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    with _interruptions() as interruptions:
        try:
            code = _run(arguments)
        except KeyboardInterrupt:
            code = EXIT_INTERRUPTED
        except Exception as error:
            # When the user interrupts it, DuckDB ends a query with an error of its own.
            if interruptions:
                code = EXIT_INTERRUPTED
            elif isinstance(error, HindcastError):
                _complain(str(error))
                code = error.exit_code
            elif isinstance(error, PermissionError):
                # Every path that a command touches on its own: a lake, a home, a current folder of somebody else.
                where = error.filename if error.filename is not None else "a file"
                _complain(f"{where}: {error.strerror}; run it as a user who may read it, or give another place")
                code = InputError.exit_code
            else:
                raise
    if code == EXIT_INTERRUPTED:
        _complain("interrupted; finished parts stay: run the command again to go on")
    return code


def _run(arguments: list[str]) -> int:
    try:
        application()(args=arguments)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


@contextmanager
def _interruptions() -> Iterator[list[int]]:
    """Collects interruptions: Ctrl-C, and SIGTERM of a scheduler."""
    arrived: list[int] = []

    def interrupt(number: int, frame: FrameType | None) -> None:
        arrived.append(number)
        raise KeyboardInterrupt

    usual = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
    before = {number: handler for number, handler in usual.items() if signal.getsignal(number) is handler}
    if threading.current_thread() is not threading.main_thread():
        before.clear()  # only the main thread can set handlers, so it handles the signals
    for number in before:
        signal.signal(number, interrupt)
    try:
        yield arrived
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _complain(message: str) -> None:
    sys.stderr.write(visible(f"hindcast: {message}\n"))


# A command makes many objects and few cycles of them, and most commands end before a search for cycles finds anything.
_COLLECTING = (20_000, 20, 10)


def main() -> None:
    """The console script."""
    gc.set_threshold(*_COLLECTING)
    before = sys.stdin, sys.stdout, sys.stderr
    sys.stdin = readable(sys.stdin)
    sys.stdout, sys.stderr = own = patient(sys.stdout), patient(sys.stderr)
    try:
        code = run()
    finally:
        sys.stdin, sys.stdout, sys.stderr = before
        for stream in own:
            stream.close()
    # Cleanup at exit takes a moment; interrupting it could leave processes waiting for each other for ever.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.exit(code)
