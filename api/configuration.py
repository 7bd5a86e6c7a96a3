"""The configuration file, `hindcast.toml`: defaults for options that rarely change.

The command line wins over the environment, and the environment over the file. Keys at the top are options that several commands
share; a table such as `[gate]` holds options of one command.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperOption

from ingest.errors import InputError

from .command_help import names_of

FILE_NAME = "hindcast.toml"
VARIABLE = "HINDCAST_CONFIG"
# The keys at the top. Each command takes the keys for which it has an option.
SHARED = (
    "lake", "quiet", "memory-bytes-max", "cluster", "output", "rules", "kubernetes-version", "workers", "since", "until",
    "review-by", "expires",  # the earlier name of review-by
)  # fmt: skip
# The values of `output`: the formats of all commands. Each command offers some of them.
FORMATS = ("table", "wide", "json", "yaml", "markdown", "csv", "html", "junit", "sarif", "openreports", "policyreport", "owners")
_PREFIX = "HINDCAST_"
# An option of all commands together, not of a single one.
_GLOBAL = ("lake", "quiet", "memory-bytes-max")


@dataclass(frozen=True)
class Configuration:
    """The content of a configuration file. `origin` is empty without a file."""

    origin: Path | None = None
    text: str = ""
    shared: Mapping[str, Any] = field(default_factory=dict)
    commands: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @classmethod
    def load(cls, environment: Mapping[str, str], commands: Iterable[str]) -> Configuration:
        """The file that applies, see `find`. Raises InputError for text that is not TOML, and for an unknown key with file and
        line."""
        path = find(environment)
        if path is None:
            return cls()
        try:
            text = path.read_text(encoding="utf-8")
            found = tomllib.loads(text)
        except OSError as error:
            raise InputError(f"{path}: the configuration cannot be read: {error.strerror}", f"see {VARIABLE}") from error
        except UnicodeDecodeError as error:
            raise InputError(f"{path}: the configuration is not UTF-8", "save it as UTF-8") from error
        except tomllib.TOMLDecodeError as error:
            line = re.search(r"line (\d+)", str(error))
            raise InputError(f"{path}:{line[1] if line else 1}: this is not TOML: {error}") from error
        known = tuple(commands)
        tables = {name: value for name, value in found.items() if name in known and isinstance(value, dict)}
        shared = {name: value for name, value in found.items() if name not in tables}
        result = cls(path, text, shared, tables)
        for name in shared:
            if name not in SHARED:
                raise InputError(
                    f"{result.place('', name)}: found the key {name!r}, wanted one of {', '.join(SHARED)}",
                    "options of one command stand in a table with its name, such as [gate]",
                )
        if (form := shared.get("output", FORMATS[0])) not in FORMATS:
            raise InputError(f"{result.place('', 'output')}: output is {form!r}, wanted one of {', '.join(FORMATS)}")
        return result

    @property
    def lake(self) -> Path | None:
        """The lake that the file names: a URL, or a path; a relative path counts from the folder of the file."""
        value = self.shared.get("lake")
        if value is None:
            return None
        if not isinstance(value, str) or self.origin is None:
            raise InputError(f"{self.place('', 'lake')}: lake is {value!r}, wanted the path of a folder or a URL")
        return Path(value) if "://" in value else self._path(value)

    @property
    def quiet(self) -> bool:
        """Whether the file asks for results and errors only."""
        value = self.shared.get("quiet", False)
        if not isinstance(value, bool):
            raise InputError(f"{self.place('', 'quiet')}: quiet is {value!r}, wanted true or false")
        return value

    @property
    def memory_bytes_max(self) -> int:
        """The memory that the file gives to each process of a command; 0 if the file does not say."""
        value = self.shared.get("memory-bytes-max", 0)
        if type(value) is not int:
            place = self.place("", "memory-bytes-max")
            raise InputError(f"{place}: memory-bytes-max is {value!r}, wanted a number of bytes", "0 takes the default")
        return value

    def defaults(self, name: str, command: Any, environment: Mapping[str, str]) -> dict[str, Any]:
        """Values for the options of one command, by parameter. Raises InputError for an unknown key or a wrong value."""
        options = {
            flag[2:]: option
            for option in command.params
            if isinstance(option, TyperOption)
            for flag in option.opts
            if flag.startswith("--")
        }
        table = self.commands.get(name, {})
        for key in table:
            if not any(key in names_of(name, shown) for shown in options):
                hint = f"`hindcast {name} --help` lists its options"
                raise InputError(f"{self.place(name, key)}: hindcast {name} has no option --{key}", hint)
        values: dict[str, Any] = {}
        for shown, option in options.items():
            for key in names_of(name, shown):
                found = self._value(name, key, option, environment, command)
                if found is not None:
                    values.setdefault(option.name or key, found)
        return values

    def _value(self, name: str, key: str, option: TyperOption, environment: Mapping[str, str], command: Any) -> Any:
        """The value of one key from the environment or the file; None if neither has it."""
        variable = _PREFIX + key.upper().replace("-", "_")
        is_shared = key in SHARED and key not in _GLOBAL
        if is_shared and option.envvar is None and environment.get(variable):
            return self._checked(variable, option, environment[variable], command)
        if key in (table := self.commands.get(name, {})):
            return self._checked(self.place(name, key), option, table[key], command)
        if is_shared and key in self.shared and self._is_offered(key, option):
            return self._checked(self.place("", key), option, self.shared[key], command)
        return None

    def place(self, table: str, key: str) -> str:
        """`file:line` of a key; of the first line if the key is written in an unusual way."""
        current, wanted = "", re.compile(rf"""\s*["']?{re.escape(key)}["']?\s*[=.]""")
        for number, line in enumerate(self.text.splitlines(), start=1):
            if header := re.match(r"\s*\[+\s*[\"']?([^\"'\]]+?)[\"']?\s*\]", line):
                current = header[1]
                if not table and current == key:
                    return f"{self.origin}:{number}"
            elif current == table and wanted.match(line):
                return f"{self.origin}:{number}"
        return f"{self.origin}:1"

    def _checked(self, place: str, option: TyperOption, value: Any, command: Any) -> Any:
        """The value in the option's type, with paths relative to the file. Raises InputError."""
        kind = option.type.name
        many = value if isinstance(value, list) else [value]
        if kind in ("str", "path") and not all(isinstance(each, str) for each in many):
            raise InputError(f"{place}: {option.opts[-1]} is {value!r}, wanted text", "put it in quotes")
        if kind == "path" and self.origin is not None and place.startswith(f"{self.origin}:"):
            many = [each if each == "-" or "://" in each else str(self._path(each)) for each in many]
        found = many if option.multiple else many[0] if not isinstance(value, list) else many
        try:
            option.process_value(typer.Context(command, resilient_parsing=True), found)
        except (typer.BadParameter, InputError) as error:
            raise InputError(f"{place}: {option.opts[-1]} is {value!r}: {getattr(error, 'message', error)}") from None
        return found

    def _is_offered(self, key: str, option: TyperOption) -> bool:
        """Whether this command accepts a shared value: not every command prints every format."""
        choices = getattr(option.type, "choices", None)
        return key != "output" or choices is None or self.shared[key] in choices

    def _path(self, text: str) -> Path:
        assert self.origin is not None
        return self.origin.parent / Path(text).expanduser()


def find(environment: Mapping[str, str]) -> Path | None:
    """The first of: the file that HINDCAST_CONFIG names, `hindcast.toml` here, the file in the user's configuration folder.

    Raises InputError when HINDCAST_CONFIG names a missing file; an empty HINDCAST_CONFIG turns the file off.
    """
    named = environment.get(VARIABLE)
    if named is not None:
        if named and not _is_file(Path(named)):
            raise InputError(f"{VARIABLE}: {named} is not a file", "set it to the path of a file, or unset it")
        return Path(named) if named else None
    folder = environment.get("XDG_CONFIG_HOME")
    home = Path(folder) if folder else Path(environment.get("HOME", "")) / ".config"
    return next((path for path in (Path(FILE_NAME), home / "hindcast" / FILE_NAME) if _is_file(path)), None)


def _is_file(path: Path) -> bool:
    """Whether there is such a file, as far as this user may know: a folder of somebody else has no configuration."""
    try:
        return path.is_file()
    except OSError:
        return False
