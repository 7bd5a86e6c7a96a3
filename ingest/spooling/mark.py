"""The mark: how much of the open segment is acknowledged. It is written next to the segment after each fdatasync and before the
answer.

    spool/lock    NAME BYTES STATE BOOT CRC, one line of fixed length, written again in place

After a crash of the process the line is exact, because the kernel has it. Bytes behind BYTES were never acknowledged, and damaged
bytes before it were. A second fdatasync for each batch would double the cost of an acknowledgement. So after a crash of the machine
(another BOOT) the line may be older than the segment; then at least BYTES were acknowledged.
"""

from __future__ import annotations

import os
import zlib
from dataclasses import dataclass
from pathlib import Path

_LINE_BYTES = 256
_BOOT = Path("/proc/sys/kernel/random/boot_id")  # proc_sys_kernel(5)
_WRITING, _SEALING = "writing", "sealing"


@dataclass(frozen=True, slots=True)
class Mark:
    """The acknowledged part of one segment. `is_exact` is false where more than `bytes` may have been acknowledged."""

    segment: str
    bytes: int
    is_exact: bool
    is_sealing: bool = False


def write_mark(handle: int, segment: str, acknowledged_bytes: int, *, sealing: bool = False) -> None:
    """Write the line; it survives a crash of the process. `sealing` says that the segment may lose this name from now on. Raises
    OSError."""
    text = f"{segment} {acknowledged_bytes} {_SEALING if sealing else _WRITING} {_BOOT_ID or '-'}".encode()
    line = (b"%s %08x" % (text, zlib.crc32(text))).ljust(_LINE_BYTES - 1) + b"\n"
    if os.pwrite(handle, line, 0) != len(line):
        raise OSError(5, "the mark of acknowledged bytes was written only in part")


def read_mark(handle: int) -> Mark | None:
    """The line, or None without one: an older version wrote the spool, or the line is damaged. Raises OSError."""
    text, _, crc = os.pread(handle, _LINE_BYTES, 0).rstrip().rpartition(b" ")
    if not text or crc != b"%08x" % zlib.crc32(text):
        return None
    segment, size, state, boot = text.decode().rsplit(" ", 3)
    return Mark(segment, int(size), bool(_BOOT_ID) and boot == _BOOT_ID, state == _SEALING)


def _boot_id() -> str:
    try:
        return _BOOT.read_text().strip()
    except OSError:
        return ""


_BOOT_ID = _boot_id()
