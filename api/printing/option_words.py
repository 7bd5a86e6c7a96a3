"""The words for the values of options in `--help`. Left alone, typer prints its names of types there, such as `<int range>`."""

from __future__ import annotations

from typing import Any

_WORDS = {"str": "TEXT", "int": "NUMBER", "int range": "NUMBER", "float": "NUMBER", "float range": "NUMBER"}
_NAMED = {"since": "TIME", "until": "TIME", "at": "TIME", "expires": "DAY", "kubernetes_version": "VERSION", "output": "FORMAT"}
# Longer lists of choices do not fit between the name of an option and its help in 80 columns.
_CHOICES_CHARACTERS_MAX = 20


def name_values(command: Any) -> Any:
    """The command of typer, whose options have words for their values. A long list of choices moves into the help line.

    An argument that is a choice is named by its choices.
    """
    for parameter in command.params:
        if parameter.metavar is not None:
            continue
        choices = "|".join(getattr(parameter.type, "choices", ()))
        if parameter.param_type_name != "option":
            parameter.metavar = choices or None
        elif len(choices) > _CHOICES_CHARACTERS_MAX:
            parameter.metavar = _NAMED.get(parameter.name, "WORD")
            parameter.help = f"{parameter.help} One of: {choices.replace('|', ', ')}."
        elif not choices:
            described = parameter.type.name
            parameter.metavar = _NAMED.get(parameter.name) or _WORDS.get(described, described.upper())
    return command
