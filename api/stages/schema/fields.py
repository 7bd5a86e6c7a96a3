"""`hindcast schema fields`: who sent fields that a schema does not know, and which stored objects carry them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from api.context import Context
from ingest.errors import InputError
from pipeline.explaining.redaction import Redaction

if TYPE_CHECKING:
    from api.printing.output import Format, Table
    from pipeline.runs.window import Window
    from pipeline.stages.schema.evidence.definitions import KnownDefinition
    from pipeline.stages.schema.evidence.fields import Coverage, UnknownFields
    from queries import LakeReader


_REDACTION = Redaction()
_USERS_SHOWN = 3


def fields(own: Context, kind: str, files: list[Path], window: Window, form: Format, limit: int | None) -> int:
    """Print the unknown fields of a kind: by field, by sender, and by object."""
    from api.commands.parts.window import check_window
    from api.printing.output import render
    from pipeline.stages.schema.evidence.fields import unknown_fields_of
    from queries import open_lake

    check_window(own, window)
    reader = open_lake(own.lake)
    try:
        known = definition_of_kind(reader, kind, files, window)
        with own.progress("reading requests"):
            found = unknown_fields_of(reader, known, window)
    finally:
        reader.close()
    render([fields_table(found), senders_table(found), carriers_table(found)], form, limit=limit)
    return 0


def definition_of_kind(reader: LakeReader, kind: str, files: list[Path], window: Window) -> KnownDefinition:
    """The definition in the files, or the one that the lake shows last. Raises InputError if no definition has the name."""
    from pipeline.manifests.files import manifests_of, texts_of
    from pipeline.stages.schema.checking import definition_documents
    from pipeline.stages.schema.evidence.definitions import given_definitions, named, recorded_definitions

    if files:
        documents = definition_documents(manifests_of(texts_of(files)))
        return named(given_definitions(documents), kind, "the files")
    return named(recorded_definitions(reader, window.until), kind, "the log and the snapshots")


def fields_table(found: UnknownFields) -> Table:
    """One row per field that the schema does not know."""
    from api.printing.output import Column, Table
    from pipeline.stages.schema.evidence.stored import State

    numbers = ("requests", "stored", "hidden", "unknown")
    columns = [
        Column("field"),
        Column("seen_in", "SEEN IN"),
        *(Column(each, number=True) for each in numbers),
        Column("gone", wide=True, number=True),
        Column("deleted", wide=True, number=True),
        Column("users", may_shorten=True),
        Column("first", wide=True),
        Column("last", may_go=1),
        Column("sample", may_shorten=True, may_go=2),
    ]
    rows = []
    for each in found.fields:
        users = sorted({sender.user for sender in each.senders})
        more = f" and {len(users) - _USERS_SHOWN} more" if len(users) > _USERS_SHOWN else ""
        times = [moment for sender in each.senders for moment in (sender.first, sender.last) if moment is not None]
        rows.append(
            [
                each.field,
                ", ".join(each.channels),
                each.requests,
                *(each.states.get(state, 0) for state in (State.STORED, State.HIDDEN, State.UNKNOWN, State.GONE, State.DELETED)),
                ", ".join(users[:_USERS_SHOWN]) + more,
                min(times, default=None),
                max(times, default=None),
                sample_of(each.field, each.sample),
            ]
        )
    own = found.definition.definition
    notes = [f"the schema is that of {own.plural}.{own.group} from {found.definition.source}", *_notes(found.coverage)]
    return Table("fields", columns, rows, f"Fields of {own.kind} that the schema does not know", notes)


def _notes(coverage: Coverage) -> list[str]:
    """What the figures count, and what the record does not show."""
    from ingest.counted import counted

    notes = [
        "body: of a create or update; patch: as sent; last-applied: kubectl's annotation; refusal: the error names the field; "
        "stored: an answer or a snapshot shows it",
        "stored, hidden, unknown: objects that carry the field now; hidden: in storage, and dropped on every read; "
        "unknown: a later write is not recorded whole",
        f"{counted(coverage.writes, 'write')}, {sum(coverage.opaque.values()):,} of them without a body",
        f"{coverage.snapshots} lists of snapshots",
    ]
    notes += [f"unknown: what {counted(count, 'write')} sent: {reason}" for reason, count in sorted(coverage.opaque.items())]
    notes += [
        f"unknown: what {counted(count, 'write')} of {version} sent; the definition has no such version"
        for version, count in sorted(coverage.without_schema.items())
    ]
    if coverage.redacted:
        notes.append(f"unknown: the fields inside values that redaction replaced, in {counted(coverage.redacted, 'write')}")
    if coverage.kept_bodies:
        notes.append(
            f"unknown: what the API server dropped from {coverage.kept_bodies:,} creates and updates; "
            "it logs a body only after it dropped the fields that its schema did not know"
        )
    return notes


def senders_table(found: UnknownFields) -> Table:
    """One row per field, channel and user."""
    from api.printing.output import Column, Table

    columns = [
        Column("field"),
        Column("seen_in", "SEEN IN"),
        Column("user"),
        Column("requests", number=True),
        Column("refused", number=True, may_go=2),
        Column("objects", number=True, may_go=3),
        Column("first", wide=True),
        Column("last", may_go=1),
        Column("sample", may_shorten=True, may_go=1),
    ]
    rows = [
        [
            each.field,
            str(sender.channel),
            sender.user,
            sender.requests,
            sender.refused,
            len(sender.objects),
            sender.first,
            sender.last,
            sample_of(each.field, sender.sample),
        ]
        for each in found.fields
        for sender in sorted(each.senders, key=lambda sender: (str(sender.channel), -sender.requests, sender.user))
    ]
    return Table("senders", columns, rows, "Who sent them")


def carriers_table(found: UnknownFields) -> Table:
    """One row per object and field that is or was stored."""
    from api.printing.output import Column, Table
    from pipeline.stages.schema.evidence.paths import text_of

    columns = [
        Column("object"),
        Column("field"),
        Column("state"),
        Column("user"),
        Column("since"),
        Column("value", may_shorten=True, may_go=1),
        Column("audit_id", wide=True),
        Column("changed", wide=True),
    ]
    rows = [
        [
            name_of(stored.key.namespace, stored.key.name),
            text_of(path),
            str(each.state),
            "unknown" if each.origin.user is None else each.origin.user.username,
            each.origin.ts,
            sample_of(text_of(path), each.value),
            each.origin.audit_id,
            each.since,
        ]
        for stored in found.objects
        for path, each in stored.fields.items()
    ]
    rows.sort(key=lambda row: (row[2] in ("gone", "deleted"), str(row[0]), str(row[1])))
    notes = [
        "since: when its writer wrote it; without a recorded writer, when it was first seen",
        "gone: a later write of the object removed it",
    ]
    return Table("carriers", columns, rows, "Objects that store or stored them", notes)


def name_of(namespace: str, name: str) -> str:
    """`namespace/name`, or the name of a cluster-scoped object."""
    return f"{namespace}/{name}" if namespace else name


def sample_of(field: str, value: Any) -> str:
    """A value as JSON without credentials; empty where the record has none."""
    from pipeline.stages.schema.evidence.sent import NO_VALUE

    if value is NO_VALUE:
        return ""
    name = field.rpartition(".")[2]
    return json.dumps(_REDACTION.object({name: value})[name], ensure_ascii=False, separators=(",", ":"))


def shown_message(message: str, value: Any) -> str:
    """A message that may quote an object, without the credentials of the object."""
    return _REDACTION.text(message, value)


def kind_of(names: list[str], files: list[Path]) -> str:
    """The one kind that the command line names, or the one that the files define. Raises InputError."""
    from pipeline.manifests.files import manifests_of, texts_of
    from pipeline.stages.schema.checking import definition_documents
    from pipeline.stages.schema.evidence.definitions import given_definitions

    if len(names) == 1:
        return names[0]
    if names or not files:
        raise InputError(f"schema fields wants one kind, found {len(names)}", "name one, such as widgets.shop.example.com")
    known = given_definitions(definition_documents(manifests_of(texts_of(files))))
    defined = sorted({f"{each.definition.plural}.{each.definition.group}" for each in known})
    if len(defined) != 1:
        told = ", ".join(defined) or "no CustomResourceDefinition"
        hint = f"name one of them: hindcast schema fields {defined[0]} -f ..." if defined else "name a kind that the log defines"
        raise InputError(f"schema fields wants one kind; {', '.join(map(str, files))} has {told}", hint)
    return defined[0]
