"""`hindcast serve`: the audit webhook backend."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import MISSING, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_type_hints

import typer

from api.context import Context

if TYPE_CHECKING:
    import inspect


def command(context: typer.Context, **given: Any) -> int:
    """Receive audit events over HTTP, acknowledge them once they are durable, and fill the lake in a second process."""
    from api.settings import Settings
    from api.sink.serve import serve  # imported late, so that no other command waits for a web framework to load

    own: Context = context.obj
    values = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in given.items()
        if value not in (None, []) and not _environment_wins(context, name)
    }
    return serve(Settings.read(os.environ, lake=own.lake, **values))


def _environment_wins(context: typer.Context, name: str) -> bool:
    """Whether a value comes from the configuration file although the environment has one, too."""
    from api.settings import ENV_PREFIX

    source = context.get_parameter_source(name)
    return source is not None and source.name == "DEFAULT_MAP" and ENV_PREFIX + name.upper() in os.environ


def _options() -> inspect.Signature:
    """One option per setting, so that the table of settings is the only list of them; an option that was not given is None."""
    import inspect

    from api.settings import Settings

    hints = get_type_hints(Settings, include_extras=True)
    parameters = [inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)]
    for item in fields(Settings):
        if item.name == "lake":
            continue
        kind, text = get_args(hints[item.name])[:2]
        default = False if item.default in (None, MISSING, "", ()) else _shown(item.default)
        parameters.append(
            inspect.Parameter(
                item.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=None,
                annotation=Annotated[
                    _option_type(kind), typer.Option(help=text[:1].upper() + text[1:] + ".", show_default=default)
                ],
            )
        )
    return inspect.Signature(parameters)


def _option_type(kind: Any) -> Any:
    if kind == tuple[str, ...]:
        return list[str] | None
    return Path | None if kind in (Path, Path | None) else kind | None


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


_declared: Callable[..., int] = command
_declared.__signature__ = _options()  # type: ignore[attr-defined]  # typer reads the options from here
