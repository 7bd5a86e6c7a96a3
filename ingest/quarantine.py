"""Keeps input that is not an event byte for byte with the reason, so that no evidence is lost and no batch waits for it.

    quarantine/SOURCE-NAME.jsonl.zst   one JSON object a line: {source, cluster, received_ts, reason, sealed, text | base64}

`sealed` says that foreign annotations were escaped (ingest/notes.py), as older versions did not. `text` holds the bytes where they
are UTF-8; `base64` holds them where they are not.
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import zstandard

from .durable import make_folder, write_durably

# One row per refused record, without its bytes.
_HEAD_COLUMNS: list[pa.Field[Any]] = [
    pa.field("source", pa.string(), nullable=False),
    pa.field("cluster", pa.string()),  # null where the cluster is unknown
    pa.field("received_ts", pa.timestamp("us", tz="UTC")),
    pa.field("reason", pa.string(), nullable=False),
]
HEADS = pa.schema(_HEAD_COLUMNS)


class _Head(msgspec.Struct):
    source: str
    cluster: str
    received_ts: float
    reason: str


_head_decoder = msgspec.json.Decoder(_Head)


@dataclass(frozen=True, slots=True)
class Quarantined:
    """One refused record. `received_ts` is seconds since the epoch; `cluster` is empty where it is unknown."""

    source: str
    cluster: str
    received_ts: float
    reason: str
    raw: bytes
    sealed: bool = False


def write_quarantine(directory: Path, records: Iterable[Quarantined], name: str = "") -> Path:
    """Write the records to a file and return its path; the file is then durable. Raises OSError.

    Work that may be repeated after a crash gives the file a `name`, so that the repetition replaces it; otherwise it is a new one.
    """
    if not directory.is_dir():
        make_folder(directory, 0o700)
    rows = [_row(record) for record in records]
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    unique = f"{rows[0]['source'] if rows else 'empty'}-{stamp}-{secrets.token_hex(4)}"
    path = directory / f"{name or unique}.jsonl.zst"
    encoder = msgspec.json.Encoder()
    payload = b"".join(encoder.encode(row) + b"\n" for row in rows)
    compressed = zstandard.ZstdCompressor(level=3).compress(payload)
    write_durably(path, lambda target: _fill(target, compressed))
    return path


def quarantine_files(directory: Path) -> list[Path]:
    """The files of a quarantine, oldest first by their names."""
    return sorted(directory.glob("*.jsonl.zst"))


def read_records(path: Path) -> list[Quarantined]:
    """The records of one file. Raises OSError, and ValueError for a file that is not whole."""
    try:
        lines = zstandard.ZstdDecompressor().decompress(path.read_bytes()).splitlines()
        return [_record(msgspec.json.decode(line)) for line in lines]
    except (zstandard.ZstdError, KeyError) as error:
        raise ValueError(str(error)) from error


def _record(row: dict[str, Any]) -> Quarantined:
    raw = base64.b64decode(row["base64"]) if "base64" in row else row["text"].encode()
    return Quarantined(row["source"], row["cluster"], row["received_ts"], row["reason"], raw, row.get("sealed") is True)


def read_quarantine(directory: Path) -> list[Quarantined]:
    """Every record of a quarantine, oldest file first, for users who look at refused records."""
    return [record for path in quarantine_files(directory) for record in read_records(path)]


def quarantine_heads(paths: Iterable[Path]) -> pa.Table:
    """The records of quarantine files without their bytes: rows of HEADS. A file that cannot be read is a row that says so."""
    rows: list[dict[str, object]] = []
    for path in paths:
        try:
            lines = zstandard.ZstdDecompressor().decompress(path.read_bytes()).splitlines()
            rows += [_head_row(_head_decoder.decode(line)) for line in lines]
        except FileNotFoundError:
            continue
        except (OSError, ValueError, zstandard.ZstdError) as error:
            rows.append({"source": "quarantine", "reason": f"{path.name}: the quarantine file itself cannot be read: {error}"})
    return pa.Table.from_pylist(rows, HEADS)


def _head_row(head: _Head) -> dict[str, object]:
    known = datetime.fromtimestamp(head.received_ts, UTC) if head.received_ts else None
    return {"source": head.source, "cluster": head.cluster or None, "received_ts": known, "reason": head.reason}


def _fill(target: Path, data: bytes) -> None:
    target.write_bytes(data)


def _row(record: Quarantined) -> dict[str, object]:
    row: dict[str, object] = {
        "source": record.source,
        "cluster": record.cluster,
        "received_ts": record.received_ts,
        "reason": record.reason,
    }
    if record.sealed:
        row["sealed"] = True
    try:
        row["text"] = record.raw.decode("utf-8")
    except UnicodeDecodeError:
        row["base64"] = base64.b64encode(record.raw).decode("ascii")
    return row
