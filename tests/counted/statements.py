"""What DuckDB says of each statement: how many there were, the rows that they scanned, made inside, and gave back."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from types import TracebackType
from typing import Any

_END = b"\0end"
NAMES = ("statements", "scanned", "inside", "returned")


class Profiles:
    """A pipe that DuckDB writes its profiles to. A thread of this process reads it, so that the counted process never waits."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._chunks: list[bytes] = []

    def __enter__(self) -> Profiles:
        os.mkfifo(self.path)
        self._pipe = os.open(self.path, os.O_RDWR)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        os.write(self._pipe, _END)
        self._reader.join()
        os.close(self._pipe)
        self.path.unlink()

    def _read(self) -> None:
        while True:
            chunk = os.read(self._pipe, 1 << 16)
            self._chunks.append(chunk)
            if chunk.endswith(_END):
                return

    def counts(self) -> dict[str, int]:
        """The sums over all statements, once the pipe is closed."""
        text = b"".join(self._chunks).removesuffix(_END).decode()
        found = dict.fromkeys(NAMES, 0)
        decoder, at = json.JSONDecoder(), 0
        while (at := _after_space(text, at)) < len(text):
            profile, at = decoder.raw_decode(text, at)
            found["statements"] += 1
            found["scanned"] += profile["query"]["total_rows_scanned"]
            found["inside"] += profile["query"]["total_intermediate_rows"]
            found["returned"] += _returned(profile["operator"])
        return found


def _after_space(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at


def _returned(operators: list[dict[str, Any]]) -> int:
    """The rows below the collector of a result; a statement without one gives none back."""
    return sum(
        inner["intermediate_rows"]
        for operator in operators
        if operator["type"] == "RESULT_COLLECTOR"
        for inner in operator.get("children", ())
    )
