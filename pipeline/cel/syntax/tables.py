"""A parser's tables, kept in a file: to analyze the grammar of CEL takes twenty times as long as to read them."""

from __future__ import annotations

import hashlib
import io
import os
import pickle
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import lark

# Where the tables are kept; who uses the language sets it, and without it each process makes them.
kept_in: Callable[[], Path] | None = None
# What a parser is given when it is read; it is not kept.
_GIVEN = ("transformer", "lexer_callbacks")


def parser_of(grammar: str, settings: Mapping[str, object], given: Mapping[str, object]) -> lark.Lark:
    """The LALR parser of a grammar. `settings` are the options of lark that decide its tables, `given` those of `_GIVEN`.

    The first parser keeps the tables in the folder `kept_in`, and later ones read them. A file that is missing or damaged is made
    again.
    """
    key = _digest(repr((grammar, sorted(settings.items()), lark.__version__, sys.version_info[:2])).encode())[:16]
    kept = _file(f"cel-grammar-{key}")
    found = None if kept is None else _read(kept)
    if found is not None:
        # Parsers that lark's own generator writes load themselves so too; `Lark.load` takes no transformer.
        load = lark.Lark._load_from_dict
        read: lark.Lark = load(found["data"], found["memo"], **given)  # type: ignore[no-untyped-call]  # lark does not annotate it
        return read
    made = lark.Lark(grammar, parser="lalr", **settings, **given)
    if kept is not None:
        _write(kept, made)
    return made


def _file(name: str) -> Path | None:
    """Where the tables are kept; None where only this process could use them."""
    if kept_in is None:
        return None
    with suppress(OSError, RuntimeError):
        folder = kept_in()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Unpickling runs what the file says, so only this user may be able to write it.
        if folder.stat().st_uid == os.geteuid() and not folder.stat().st_mode & 0o022:
            return folder / name
    return None


def _read(file: Path) -> Mapping[str, object] | None:
    """The data and memo of `lark.Lark.save`, behind their digest; None if they are not there, or damaged."""
    with suppress(OSError):
        digest, _, content = file.read_bytes().partition(b"\n")
        if digest.decode("latin-1") == _digest(content):
            found: Mapping[str, object] = pickle.loads(content)
            return found
    return None


def _write(file: Path, parser: lark.Lark) -> None:
    """Without room for it, later parsers take as long as this one."""
    content = io.BytesIO()
    parser.save(content, exclude_options=_GIVEN)
    unfinished = file.with_name(f".{file.name}.{os.getpid()}-{threading.get_ident()}.tmp")  # another process never sees half a file
    try:
        unfinished.write_bytes(_digest(content.getvalue()).encode() + b"\n" + content.getvalue())
        unfinished.replace(file)
    except OSError:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
