"""What DuckDB says of each statement: how many there were, the rows that they scanned, made inside, and gave back."""

from __future__ import annotations

import json
import os
import selectors
import threading
from pathlib import Path
from types import TracebackType
from typing import Any

NAMES = ("statements", "scanned", "inside", "returned")
# Statements of one connection follow each other; those of two would write into each other on one pipe.
PIPES = 128


def pipe_of(folder: str | Path, connection: int) -> str:
    """The pipe of a connection by its number; DuckDB wants a file of this ending."""
    return f"{folder}/profile-{connection % PIPES}.json"


class Profiles:
    """Pipes that DuckDB writes its profiles to. A thread of this process reads them, so that the counted process never waits."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._texts: dict[int, list[bytes]] = {}

    def __enter__(self) -> Profiles:
        self.folder.mkdir()
        self._selector = selectors.DefaultSelector()
        for number in range(PIPES):
            path = pipe_of(self.folder, number)
            os.mkfifo(path)
            pipe = os.open(path, os.O_RDWR | os.O_NONBLOCK)
            self._selector.register(pipe, selectors.EVENT_READ)
            self._texts[pipe] = []
        self._ended, self._end = os.pipe()
        self._selector.register(self._ended, selectors.EVENT_READ)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        os.close(self._end)
        self._reader.join()
        self._selector.close()
        for pipe in (*self._texts, self._ended):
            os.close(pipe)
        for number in range(PIPES):
            Path(pipe_of(self.folder, number)).unlink()
        self.folder.rmdir()

    def _read(self) -> None:
        # What is in a pipe when the end comes is ready together with the end.
        ended = False
        while not ended:
            for key, _ in self._selector.select():
                if key.fd == self._ended:
                    ended = True
                else:
                    self._texts[key.fd].append(os.read(key.fd, 1 << 16))
            if ended:
                self._read_rest()

    def _read_rest(self) -> None:
        for pipe, chunks in self._texts.items():
            try:
                while chunk := os.read(pipe, 1 << 16):
                    chunks.append(chunk)
            except BlockingIOError:
                continue

    def counts(self) -> dict[str, int]:
        """The sums over all statements, once the pipes are closed."""
        found = dict.fromkeys(NAMES, 0)
        decoder = json.JSONDecoder()
        for chunks in self._texts.values():
            text, at = b"".join(chunks).decode(), 0
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
