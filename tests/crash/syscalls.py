"""A real program whose system calls fail where the caller says. The seam is the kernel's, so that every library is behind it.

A forked child installs a seccomp filter that asks its parent before each call that changes a file. The parent counts the calls that
touch one folder and lets each pass, fail, stop halfway, or be the last one before the power goes (seccomp(2),
SECCOMP_RET_USER_NOTIF). Python's own calls, pyarrow's and SQLite's are all seen. It works on Linux for x86-64 and arm64;
`unavailable()` says why it does not work here.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import select
import shutil
import signal
import socket
import struct
import sys
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

# What becomes of a call. `torn` and `short` let half of a write reach the file; `torn` kills then, `short` reports the half.
# `cut` is a power cut: the process is killed and everything that was not synced is gone.
FAILURES = {"EIO": errno.EIO, "ENOSPC": errno.ENOSPC}
FAULTS = ("EIO", "ENOSPC", "kill", "torn", "short", "cut")

# name: number on x86-64, number on arm64; None where the architecture has no such call.
_CALLS = {
    "write": (1, 64),
    "pwrite64": (18, 68),
    "writev": (20, 66),
    "pwritev": (296, 70),
    "fsync": (74, 82),
    "fdatasync": (75, 83),
    "ftruncate": (77, 46),
    "fallocate": (285, 47),
    "truncate": (76, 45),
    "rename": (82, None),
    "renameat": (264, 38),
    "renameat2": (316, 276),
    "unlink": (87, None),
    "unlinkat": (263, 35),
    "mkdir": (83, None),
    "mkdirat": (258, 34),
    "rmdir": (84, None),
}
_PATH_ARGUMENT = {
    "truncate": 0, "rename": 0, "renameat": 1, "renameat2": 1, "unlink": 0, "unlinkat": 1, "mkdir": 0, "mkdirat": 1, "rmdir": 0,
}  # fmt: skip
_MACHINES = {"x86_64": (0, 317), "aarch64": (1, 277)}
_SYNCS = ("fsync", "fdatasync")

# From linux/seccomp.h, linux/filter.h and linux/prctl.h.
_SET_MODE_FILTER, _FLAG_NEW_LISTENER = 1, 8
_RET_ALLOW, _RET_USER_NOTIF = 0x7FFF0000, 0x7FC00000
_IOCTL_RECV, _IOCTL_SEND = 0xC0502100, 0xC0182101
_NOTIF, _RESPONSE = struct.Struct("<QIIiIQ6Q"), struct.Struct("<QqiI")
_PR_SET_NO_NEW_PRIVS = 38
_LOAD_NUMBER, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_PATH_BYTES_MAX = 4096
_PATIENCE_SECONDS = 60.0


# It is given a function by which it tells what it has done.
Work = Callable[[Callable[[str], None]], None]


@dataclass(slots=True)
class Outcome:
    """How a life ended. `calls` names every counted call in order; `acknowledged` is what the work said it had done."""

    calls: list[str] = field(default_factory=list)
    acknowledged: list[str] = field(default_factory=list)
    killed: bool = False
    defect: str = ""  # the traceback of an exception that the work did not expect


def unavailable() -> str | None:
    """Why system calls cannot be intercepted here, or None."""
    if sys.platform != "linux" or os.uname().machine not in _MACHINES:
        return "seccomp user notification is used on Linux for x86-64 and arm64 only"
    try:
        outcome = live(lambda acknowledge: acknowledge("alive"), Path("/nonexistent"), {})
    except OSError as error:
        return f"this machine does not let a process intercept its child's system calls: {error}"
    return None if outcome.acknowledged == ["alive"] else "a child under a seccomp filter does not run here"


def apart(work: Work) -> Outcome:
    """Run `work` in a child process with nothing in its way."""
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        _child(work, theirs, filtered=False)
    theirs.close()
    with ours:
        outcome = _told(ours, Outcome())
    os.waitpid(pid, 0)
    return outcome


def live(work: Work, folder: Path, faults: Mapping[int, str], *, until_end: bool = False) -> Outcome:
    """Run `work` in a child process; the n-th call that changes something below `folder` suffers `faults[n]`, counted from 1.

    With `until_end` every call from the first fault on fails
    in the same way, as on a disk that stays full.
    """
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        _child(work, theirs)
    theirs.close()
    with ours:
        listeners = socket.recv_fds(ours, 1, 1)[1]
        if not listeners:
            os.waitpid(pid, 0)
            raise OSError(errno.EPERM, "the filter cannot be installed")
        listener = listeners[0]
        try:
            outcome = _Supervisor(pid, listener, folder, faults, until_end).run()
        finally:
            os.close(listener)
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        return _told(ours, outcome)


def _told(channel: socket.socket, outcome: Outcome) -> Outcome:
    lines = b"".join(iter(lambda: channel.recv(65536), b"")).decode().splitlines()
    outcome.acknowledged = [line[1:] for line in lines if line[:1] == "+"]
    outcome.defect = "\n".join(line[1:] for line in lines if line[:1] == "!")
    return outcome


def _child(work: Work, channel: socket.socket, *, filtered: bool = True) -> None:
    try:
        if filtered:
            listener = _install_filter()
            socket.send_fds(channel, [b"l"], [listener])
            os.close(listener)
        work(lambda what: channel.sendall(f"+{what}\n".encode()))
    except BaseException:
        text = "".join(f"!{line}\n" for line in traceback.format_exc().splitlines())
        channel.sendall(text.encode())
    finally:
        os._exit(0)


def _install_filter() -> int:
    """Ask the listener before every call of _CALLS, from now on and in every thread to come; returns the listener."""
    which, seccomp = _MACHINES[os.uname().machine]
    numbers = [number for call in _CALLS.values() if (number := call[which]) is not None]
    program = struct.pack("<HBBI", _LOAD_NUMBER, 0, 0, 0)
    for index, number in enumerate(numbers):
        program += struct.pack("<HBBI", _JUMP_IF_EQUAL, len(numbers) - index, 0, number)
    program += struct.pack("<HBBI", _RETURN, 0, 0, _RET_ALLOW) + struct.pack("<HBBI", _RETURN, 0, 0, _RET_USER_NOTIF)
    buffer = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("@HxxxxxxP", len(program) // 8, ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    listener: int = libc.syscall(seccomp, _SET_MODE_FILTER, _FLAG_NEW_LISTENER, header)
    if listener < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return listener


class _Supervisor:
    """The parent's side: counts, decides, and keeps a copy of what is durable."""

    def __init__(self, pid: int, listener: int, folder: Path, faults: Mapping[int, str], until_end: bool) -> None:
        self._pid, self._listener, self._folder, self._faults, self._until_end = pid, listener, folder, faults, until_end
        which = _MACHINES[os.uname().machine][0]
        self._names = {call[which]: name for name, call in _CALLS.items()}
        self._prefix = f"{folder}/"
        self._durable = Durable(folder) if "cut" in faults.values() else None
        self._standing = ""
        self._outcome = Outcome()

    def run(self) -> Outcome:
        poll = select.poll()
        poll.register(self._listener, select.POLLIN | select.POLLHUP)
        while not self._outcome.killed:
            ready = poll.poll(_PATIENCE_SECONDS * 1000)
            if not ready:
                raise TimeoutError(f"no call for {_PATIENCE_SECONDS} s after {self._outcome.calls[-3:]}")
            if not ready[0][1] & select.POLLIN:
                break
            notif = bytearray(_NOTIF.size)
            try:
                fcntl.ioctl(self._listener, _IOCTL_RECV, notif)
            except OSError:  # the caller died in the meantime
                continue
            ident, tid, _, number, _, _, *arguments = _NOTIF.unpack(notif)
            self._decide(ident, tid, self._names[number], arguments)
        if self._durable is not None:
            self._durable.close()
        return self._outcome

    def _decide(self, ident: int, tid: int, name: str, arguments: list[int]) -> None:
        path = self._touched(tid, name, arguments)
        fault = ""
        if path is not None:
            self._outcome.calls.append(f"{name} {path.removeprefix(self._prefix)}")
            fault = self._standing or self._faults.get(len(self._outcome.calls), "")
            if fault and self._until_end:
                self._standing = fault
        if fault == "torn" and name not in ("write", "pwrite64"):
            fault = "kill"
        if fault == "short" and not self._may_be_short(tid, name, arguments):
            fault = "EIO"
        if fault in FAILURES:
            self._answer(ident, error=FAILURES[fault])
        elif fault in ("kill", "cut", "torn"):
            if fault == "torn":
                self._half_write(tid, name, arguments)
            os.kill(self._pid, signal.SIGKILL)
            os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOWAIT)
            self._outcome.killed = True
            if fault == "cut" and self._durable is not None:
                self._durable.restore()
        elif fault == "short":
            self._answer(ident, value=self._half_write(tid, name, arguments))
        elif path is not None and self._durable is not None and name in _SYNCS:
            # Asked before the call runs; nothing else writes in the meantime, because the scenarios have one writing thread.
            self._durable.synced(Path(path))
            self._answer(ident)
        else:
            self._answer(ident)

    def _touched(self, tid: int, name: str, arguments: list[int]) -> str | None:
        """The path below the folder that a call changes, or None."""
        try:
            if name in _PATH_ARGUMENT:
                with open(f"/proc/{tid}/mem", "rb", buffering=0) as memory:  # noqa: PTH123  (positions beyond a signed 64 bit)
                    memory.seek(arguments[_PATH_ARGUMENT[name]])
                    path = os.fsdecode(memory.read(_PATH_BYTES_MAX).partition(b"\0")[0])
            else:
                path = os.readlink(f"/proc/{tid}/fd/{arguments[0]}")  # noqa: PTH115
        except OSError:
            return None
        # The index of a write-ahead log lives in shared memory and is made again from the log.
        return path if (path == str(self._folder) or path.startswith(self._prefix)) and not path.endswith("-shm") else None

    def _may_be_short(self, tid: int, name: str, arguments: list[int]) -> bool:
        """Whether half of a call can be done for the caller: its file position cannot be moved from here."""
        return name == "pwrite64" or (name == "write" and bool(_flags(tid, arguments[0])[0] & os.O_APPEND))

    def _half_write(self, tid: int, name: str, arguments: list[int]) -> int:
        """Write the first half of what the caller wants to write, in its place; returns the bytes written."""
        handle, address, size = arguments[:3]
        half = max(size // 2, 1)
        with open(f"/proc/{tid}/mem", "rb", buffering=0) as memory:  # noqa: PTH123
            memory.seek(address)
            data = memory.read(half)
        target = os.open(f"/proc/{tid}/fd/{handle}", os.O_WRONLY)
        try:
            flags, position = _flags(tid, handle)
            if name == "pwrite64":
                position = arguments[3]
            elif flags & os.O_APPEND:
                position = os.fstat(target).st_size
            return os.pwrite(target, data, position)
        finally:
            os.close(target)

    def _answer(self, ident: int, *, error: int = 0, value: int | None = None) -> None:
        passes = error == 0 and value is None
        response = bytearray(_RESPONSE.pack(ident, value or 0, -error, int(passes)))
        with suppress(FileNotFoundError):  # the caller died in the meantime
            fcntl.ioctl(self._listener, _IOCTL_SEND, response)


def _flags(tid: int, handle: int) -> tuple[int, int]:
    """The flags and the position of a process's open file."""
    lines = Path(f"/proc/{tid}/fdinfo/{handle}").read_text().splitlines()
    info = dict(line.split(":", 1) for line in lines if ":" in line)
    return int(info["flags"], 8), int(info["pos"])


class Durable:
    """What a strict disk would still have after a power cut: file contents as of their last sync, names as of their folder's.

    Real file systems keep more than that; no program may count on it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._contents: dict[int, bytes] = {}
        self._names: dict[int, dict[str, int]] = {}
        self._modes: dict[int, int] = {}
        self._held: dict[int, int] = {}  # while a file is open here, no other gets its inode
        for path in [folder, *folder.rglob("*")]:
            self.synced(path)

    def synced(self, path: Path) -> None:
        """Take note that a file or folder was synced."""
        status = path.stat()
        self._modes[status.st_ino] = status.st_mode & 0o777
        if status.st_ino not in self._held:
            self._held[status.st_ino] = os.open(path, os.O_RDONLY)
        if path.is_dir():
            entries = list(os.scandir(path))
            self._names[status.st_ino] = {entry.name: entry.inode() for entry in entries}
            for entry in entries:
                if entry.is_dir():
                    self._names.setdefault(entry.inode(), {})
        else:
            self._contents[status.st_ino] = path.read_bytes()

    def restore(self) -> None:
        """Make the folder what the disk would have; what was never synced is an empty file, and an unsynced name is not there."""
        root = self._folder.stat().st_ino
        shutil.rmtree(self._folder)
        self._make(self._folder, root)

    def close(self) -> None:
        """Let go of the files."""
        for handle in self._held.values():
            os.close(handle)
        self._held.clear()

    def _make(self, path: Path, inode: int) -> None:
        if inode in self._names:
            path.mkdir()
            for name, child in self._names[inode].items():
                self._make(path / name, child)
        else:
            path.write_bytes(self._contents.get(inode, b""))
        path.chmod(self._modes.get(inode, 0o700))
