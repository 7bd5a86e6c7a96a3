"""`hindcast schema dormant` and `hindcast schema stuck`: what a new definition does to the objects that are stored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from api.context import Context
from ingest.errors import InputError

if TYPE_CHECKING:
    from api.printing.output import Format, Table
    from pipeline.runs.window import Window
    from pipeline.stages.schema.evidence.definitions import KnownDefinition
    from pipeline.stages.schema.evidence.dormant import Dormant, DormantField
    from pipeline.stages.schema.evidence.original_writes import PolicyAnswer
    from pipeline.stages.schema.evidence.stuck import Stuck, StuckObject
    from queries import LakeReader


def dormant(
    own: Context,
    files: list[Path],
    against: list[Path],
    policies: list[Path],
    window: Window,
    version: tuple[int, int],
    form: Format,
    limit: int | None,
) -> int:
    """Print the fields of stored objects that come alive under the definitions in the files."""
    from api.commands.parts.texts import read_texts
    from api.commands.parts.window import check_window
    from api.given import given_of
    from api.printing.output import render
    from pipeline.manifests.files import manifests_of, texts_of
    from pipeline.stages.registry import VALIDATING
    from pipeline.stages.schema.checking import definition_documents
    from pipeline.stages.schema.evidence.definitions import given_definitions, recorded_definitions
    from pipeline.stages.schema.evidence.dormant import dormant_fields
    from pipeline.stages.schema.evidence.original_writes import OriginalWrites
    from pipeline.stages.validating.judges import Judges
    from pipeline.stages.validating.planning import plan_replay
    from queries import open_lake

    check_window(own, window)
    given = _new(files, version)
    checked = given_of(read_texts(policies), version, own.lake).needed(VALIDATING) if policies else None
    reader = open_lake(own.lake)
    try:
        given_before = given_definitions(definition_documents(manifests_of(texts_of(against))))
        before = given_before or recorded_definitions(reader, window.until)
        with own.progress("reading requests"):
            found = [dormant_fields(reader, _old(before, new, bool(against)), new, window) for new in given]
        answers: dict[int, list[PolicyAnswer]] = {}
        if checked is not None and any(each.fields for each in found):
            judges = Judges(reader, plan_replay(reader, checked, window, version))
            for each in found:
                writes = OriginalWrites(judges, checked, each.new, version, _end(reader, window))
                answers.update({id(one): writes.answers(one) for one in each.fields})
    finally:
        reader.close()
    rows = [(each, one, answers.get(id(one), [])) for each in found for one in each.fields]
    render([dormant_table(found, rows, checked is not None)], form, limit=limit)
    return 0


def stuck(own: Context, files: list[Path], window: Window, version: tuple[int, int], form: Format, limit: int | None) -> int:
    """Print the stored objects that the definitions in the files would refuse."""
    from api.commands.parts.window import check_window
    from api.printing.output import render
    from pipeline.stages.schema.evidence.stuck import stuck_objects
    from queries import open_lake

    check_window(own, window)
    given = _new(files, version)
    reader = open_lake(own.lake)
    try:
        _refuse_dropped(given, reader, window)
        with own.progress("judging stored objects"):
            found = [stuck_objects(reader, new, version, window) for new in given]
    finally:
        reader.close()
    render([stuck_table(found)], form, limit=limit)
    return 0


def _new(files: list[Path], version: tuple[int, int]) -> list[KnownDefinition]:
    from pipeline.manifests.files import manifests_of, texts_of
    from pipeline.stages.schema.checking import definition_documents
    from pipeline.stages.schema.evidence.definitions import given_definitions
    from pipeline.stages.schema.replay.definitions import served_of

    documents = definition_documents(manifests_of(texts_of(files)))
    if not documents:
        raise InputError(f"{', '.join(map(str, files))}: found no CustomResourceDefinition", "give the new definition with -f")
    served_of(documents, version)  # Raises InputError for a definition that an API server would refuse.
    return given_definitions(documents)


def _refuse_dropped(given: Sequence[KnownDefinition], reader: LakeReader, window: Window) -> None:
    """Raises InputError for a definition that drops a version in which the cluster has stored objects."""
    from pipeline.stages.schema.evidence.definitions import recorded_definitions
    from pipeline.stages.schema.stored_names import dropped_errors

    olds = [each.definition for each in recorded_definitions(reader, window.until)]
    for new in given:
        for error in dropped_errors(new.definition, olds):
            raise InputError(
                f"{new.source}: the API server refuses {new.definition.name}: {error}",
                "keep the version with served: false; or write all its objects again, and then patch status.storedVersions",
            )


def _old(before: Sequence[KnownDefinition], new: KnownDefinition, is_given: bool) -> KnownDefinition:
    from pipeline.stages.schema.evidence.definitions import named

    own = new.definition
    try:
        return named(before, f"{own.plural}.{own.group}", "the files" if is_given else "the log and the snapshots")
    except InputError as problem:
        raise InputError(problem.message, "give the definition in force with --against") from None


def _end(reader: LakeReader, window: Window) -> datetime:
    ((last,),) = reader.connection.execute("SELECT max(ts) FROM events").fetchall()
    return window.until or last or datetime.now(UTC)


def dormant_table(
    found: Sequence[Dormant], rows: Sequence[tuple[Dormant, DormantField, list[PolicyAnswer]]], judged: bool
) -> Table:
    """One row per object and field; with policies, what they say of the object if the writer created it now."""
    from api.printing.output import Column, Table
    from api.stages.schema.fields import name_of, sample_of, shown_message
    from ingest.counted import counted
    from pipeline.stages.schema.evidence.paths import text_of

    columns = [
        Column("object"),
        Column("field"),
        Column("value", may_shorten=True),
        Column("writer"),
        Column("written", may_go=1),
        Column("state", may_go=2),
        Column("kind", wide=True),
        Column("audit_id", wide=True),
        *([Column("verdict"), Column("policy"), Column("message", prose=True)] if judged else []),
    ]
    lines = []
    for each, one, answers in rows:
        user, path = one.carried.origin.user, text_of(one.path)
        line = [
            name_of(one.stored.key.namespace, one.stored.key.name),
            path,
            sample_of(path, one.value),
            "unknown" if user is None else user.username,
            one.carried.origin.ts,
            str(one.carried.state),
            each.new.definition.kind,
            one.carried.origin.audit_id,
        ]
        if not judged:
            lines.append(line)
        elif not answers:
            lines.append([*line, "no match", "", ""])
        lines += [[*line, answer.outcome, answer.policy, shown_message(answer.text, one.stored.value)] for answer in answers]
    objects, opaque = sum(each.objects for each in found), _joined(each.opaque for each in found)
    notes = [
        f"{objects:,} stored objects, {len({one.stored.key for _, one, _ in rows}):,} of them with a field that comes alive",
        "written: when the writer wrote the field; with an unknown writer, when it was first seen",
        "hidden: in storage, and dropped on every read",
        "unknown: fields from before the log that every read drops; only a snapshot of the storage itself (etcd) shows them",
        *(f"unknown: {counted(count, 'object')}: {reason}" for reason, count in sorted(opaque.items())),
    ]
    if judged:
        notes.append("the verdict is on a create of the object, with the field alive, by the writer of the field")
    return Table("dormant", columns, lines, "Dormant fields that come alive", notes)


def stuck_table(found: Sequence[Stuck]) -> Table:
    """One row per error of a stuck object."""
    from api.printing.output import Column, Table
    from api.stages.schema.fields import name_of, shown_message
    from ingest.counted import counted

    columns = [
        Column("object"),
        Column("writes"),
        Column("field"),
        Column("message", prose=True),
        Column("kind", wide=True),
        Column("seen", wide=True),
    ]
    pairs: list[tuple[Stuck, StuckObject]] = [(each, one) for each in found for one in each.objects]
    rows = [
        [
            name_of(one.stored.key.namespace, one.stored.key.name),
            str(one.fate),
            "" if isinstance(error, str) else error.field,
            shown_message(error if isinstance(error, str) else error.message, one.stored.value),
            each.definition.definition.kind,
            one.stored.since,
        ]
        for each, one in pairs
        for error in one.errors
    ]
    objects, opaque = sum(each.looked_at for each in found), _joined(each.opaque for each in found)
    notes = [
        f"{objects:,} stored objects, {len(pairs):,} of them invalid under the new definition",
        "ratcheted: a write passes as long as the invalid parts stay as they are; a create of the same object is refused",
        "locked: every write is refused, also one that changes nothing; unreadable: the object cannot be read as its kind",
        *(f"unknown: {counted(count, 'object')}: {reason}" for reason, count in sorted(opaque.items())),
    ]
    return Table("stuck", columns, rows, "Stored objects that the new definition would refuse", notes)


def _joined(counters: Iterable[Counter[str]]) -> Counter[str]:
    return sum(counters, Counter())
