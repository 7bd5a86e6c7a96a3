"""The words for the values of options in `--help`. Left alone, typer prints Python's types there, such as `list[Path]`."""

from __future__ import annotations

from typing import Any

_WORDS = {
    "path": "PATH",
    "list[Path]": "PATH",
    "str": "TEXT",
    "list[str]": "TEXT",
    "int": "NUMBER",
    "int range": "NUMBER",
    "float": "NUMBER",
    "float range": "NUMBER",
}
_NAMED = {"since": "TIME", "until": "TIME", "at": "TIME", "expires": "DAY", "kubernetes_version": "VERSION", "output": "FORMAT"}
# Longer lists of choices do not fit between the name of an option and its help in 80 columns.
_CHOICES_CHARACTERS_MAX = 20


def name_values(command: Any) -> Any:
    """The command of typer, whose options have words for their values. A long list of choices moves into the help line."""
    for option in command.params:
        if option.param_type_name != "option" or option.metavar is not None:
            continue
        described = option.display_type(None).strip("<>")
        if "|" not in described:
            option.metavar = _NAMED.get(option.name) or _WORDS.get(described, described.upper())
        elif len(described) > _CHOICES_CHARACTERS_MAX:
            option.metavar = _NAMED.get(option.name, "WORD")
            option.help = f"{option.help} One of: {described.replace('|', ', ')}."
    return command
