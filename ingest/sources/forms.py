"""The forms of files with audit events: how to recognize each one, and how to read its lines.

A form other than lines is translated into lines of JSON as it is read. So every form is read in constant memory, and an ingest that
was interrupted goes on where it stopped. What a line may be is in envelopes.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from ..errors import InputError
from .containers import CRI, JOURNAL, cri_lines, docker_lines, is_docker, journal_lines
from .delimited import delimited_lines, shape_of
from .envelopes import expand, holds_event, is_archive
from .finder import may_hold_event
from .nested import nested_values, place_of_events
from .packed import holds_packed
from .parquet import MAGIC, parquet_rows
from .unreadable import is_misleading
from .yaml_events import is_yaml, yaml_lines

_PROBE_LINES = 100
_BINARY_BYTES = 1000
_YAML_BYTES_MAX = 1 << 17
PLAIN = "audit log"
# A first line that is longer is a document of its own, and is taken apart as it is read.
LINE_BYTES_MIN = 1 << 20

Translate = Callable[[str, Iterator[bytes]], Iterator[bytes]]


@dataclass(frozen=True, slots=True)
class Form:
    """One form. `name` is for `--format`, `title` for people, and `unit` is one of its records in messages.

    `grows` says whether a writer adds records at the end. `others` says whether lines of other logs are normal in it.
    """

    name: str
    title: str
    matches: Callable[[bytes], bool]
    translate: Callable[[bytes], Translate] | None = None
    unit: str = "line"
    grows: bool = False
    others: bool = False


def _first(probe: bytes) -> bytes:
    return probe.lstrip().split(b"\n", 1)[0].rstrip()


def _is_document(probe: bytes) -> bool:
    """Whether the first line begins a value that goes on after it."""
    first = _first(probe)
    if first[:1] not in (b"{", b"["):
        return False
    goes_on = first[-1:] in (b"{", b"[", b",", b":") or (b"\n" not in probe and len(probe) >= LINE_BYTES_MIN)
    return goes_on and (place_of_events(probe) is not None or _has_names(probe) or holds_packed(probe, may_hold_event))


# The first document may be longer than the probe, so its field names decide; in an export they may be inside a string.
_NAMES = (
    (b'"EventList"',),
    (b"auditID", b"stageTimestamp"),
    (b'"protoPayload"', b'"k8s.io"'),
    (b'"auditID"', b'"stage"'),
    (b'"AuditID"', b'"Stage"'),
    (b'"AdmissionReview"', b'"uid"'),
)


def _has_names(probe: bytes) -> bool:
    return any(all(name in probe for name in names) for names in _NAMES)


def _begins_document(probe: bytes) -> bool:
    first = _first(probe)
    return first[:1] in (b"{", b"[") and first[-1:] in (b"{", b"[", b",", b":")


def _any_line(probe: bytes, translate: Translate | None = None) -> bool:
    """One event among the first lines is enough: the others then count as damage, and the file as an audit log."""
    lines = probe if translate is None else b"".join(_translated(probe, translate))
    return any(map(holds_event, lines.split(b"\n", _PROBE_LINES)[:_PROBE_LINES]))


def _translated(probe: bytes, translate: Translate) -> Iterator[bytes]:
    try:
        yield from translate("", iter([probe]))
    except (InputError, ValueError):
        return


def _is_yaml(probe: bytes) -> bool:
    """Whether a text is YAML, and more events are in its documents than in its lines, which may begin with a name as well."""
    if not is_yaml(probe):
        return False
    part = probe[:_YAML_BYTES_MAX]
    return not _is_plain_lines(probe) or _events_in(b"".join(_translated(part, yaml_lines))) > _events_in(part)


def _events_in(lines: bytes) -> int:
    return sum(len(expand(line).events) for line in lines.split(b"\n", _PROBE_LINES)[:_PROBE_LINES] if holds_event(line))


def _is_container(pattern: Callable[[bytes], object], translate: Translate) -> Callable[[bytes], bool]:
    return lambda probe: bool(pattern(_first(probe))) and _any_line(probe, translate)


def _is_table(probe: bytes) -> bool:
    return shape_of(probe) is not None and _any_line(probe, delimited_lines)


def _is_plain_lines(probe: bytes) -> bool:
    is_binary = b"\0" in probe[:_BINARY_BYTES] and _first(probe)[:1] not in (b"{", b"[")
    return not is_binary and not _begins_document(probe) and _any_line(probe)


def _nested(probe: bytes) -> Translate:
    return partial(_nested_values, place_of_events(probe))


def _nested_values(place: tuple[bytes, ...] | None, name: str, blocks: Iterator[bytes]) -> Iterator[bytes]:
    return nested_values(name, blocks, place)


def _always(translate: Translate) -> Callable[[bytes], Translate]:
    return lambda probe: translate


# The first form that matches is taken.
FORMS = (
    Form("parquet", "Parquet rows", lambda probe: probe.startswith(MAGIC), _always(parquet_rows), unit="row"),
    Form("cri", "container log (CRI)", _is_container(CRI.match, cri_lines), _always(cri_lines), grows=True, others=True),
    Form(
        "docker",
        "container log (Docker)",
        _is_container(is_docker, docker_lines),
        _always(docker_lines),
        grows=True,
        others=True,
    ),
    Form(
        "journal", "journal export", _is_container(JOURNAL.match, journal_lines), _always(journal_lines), unit="entry", others=True
    ),
    Form("documents", "JSON documents", _is_document, _nested, unit="value"),
    Form("yaml", "YAML", _is_yaml, _always(yaml_lines), unit="document"),
    Form("lines", PLAIN, _is_plain_lines, grows=True),
    Form("table", "CSV or TSV", _is_table, _always(delimited_lines), unit="row"),
)
NAMES = {form.name: form for form in FORMS}


def form_of(probe: bytes) -> Form | None:
    """The form of a file by its beginning; None where it holds no audit event."""
    if is_archive(probe) or is_misleading(probe):
        return None  # its first line would hide the first event of each file
    return next((form for form in FORMS if form.matches(probe)), None)
