"""The page of the command line: every command with its arguments and options, as typer knows them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer

from api.cli import COMMANDS, _loaded

from .text import join, table


def page() -> str:
    """The page, as Markdown."""
    return join(["# Commands", _ABOUT, *(part for name in COMMANDS for part in _command(name))])


def _command(name: str) -> Iterator[str]:
    command = _loaded(name)
    yield f"## hindcast {name}"
    yield command.help or ""
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    options = [each for each in command.params if each.param_type_name == "option" and each.name not in ("help", *_SHARED)]
    context = typer.Context(command, info_name=f"hindcast {name}")
    yield f"```text\n{context.command_path} {' '.join(command.collect_usage_pieces(context))}\n```"
    yield table(["argument", "meaning"], [(f"`{each.name.upper()}`", each.help or "") for each in arguments])
    yield table(["option", "meaning"], [(_names(each), _meaning(each, context)) for each in options])


def _names(option: Any) -> str:
    return ", ".join(f"`{each}`" for each in (*option.opts, *option.secondary_opts))


def _meaning(option: Any, context: Any) -> str:
    """The help text with the default, where the help shows one."""
    record = option.get_help_record(context)
    return record[1] if record else option.help or ""


_SHARED = ("lake", "quiet", "memory_bytes_max")
_ABOUT = """This page is made from the commands themselves; `hindcast COMMAND --help` prints the same. Every command also has
`--lake`, `--quiet` and `--memory-bytes-max`. Each option of `hindcast serve` is also an environment variable: `HINDCAST_` and its
name in capitals."""
