"""Words as the command of a shell: names are a stranger's data, and none of them is an option or a second command."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from ingest.acting import ACTING


def command_line(words: Iterable[str]) -> str:
    """One command on one line, for bash and zsh. A word with a line break or another acting character is written in escapes."""
    return " ".join(map(_quoted, words))


def _quoted(word: str) -> str:
    if "\n" not in word and "\t" not in word and ACTING.search(word) is None:
        return shlex.quote(word)
    escaped = word.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\t", "\\t")
    return "$'" + ACTING.sub(lambda found: f"\\U{ord(found[0]):08x}", escaped) + "'"
