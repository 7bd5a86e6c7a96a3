"""`hindcast schema`: what an API server says of CustomResourceDefinitions, and of objects under them, before they are applied."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from api.commands.parts import options
from api.context import Context
from api.printing.output import Format
from ingest.errors import InputError

if TYPE_CHECKING:
    from api.printing.output import Table
    from pipeline.stages.schema.checking import Finding
    from pipeline.stages.schema.objects import ObjectFinding


EXIT_REFUSED = 2
_QUESTIONS = (
    "check: the definitions; objects: the objects of the files, as if they were created; fields: fields of a KIND that its schema "
    "does not know, and who sent them; dormant: fields of stored objects that new definitions bring to life; stuck: stored objects "
    "that new definitions would refuse."
)
_BLOCKED = "a definition that is not structural has no pruning, no defaults, no conversion by webhook, and no published schema"


class Question(StrEnum):
    """What to ask about definitions."""

    CHECK = "check"
    OBJECTS = "objects"
    FIELDS = "fields"
    DORMANT = "dormant"
    STUCK = "stuck"


def command(
    context: typer.Context,
    question: Annotated[Question, typer.Argument(help=_QUESTIONS)],
    names: Annotated[
        list[str] | None,
        typer.Argument(help="For fields the KIND; else the same as -f.", metavar="KIND|FILE", show_default=False),
    ] = None,
    filename: Annotated[
        list[Path] | None,
        typer.Option("-f", "--filename", help="CustomResourceDefinitions, and objects of their kinds: files or folders."),
    ] = None,
    since: options.Since = None,
    until: options.Until = None,
    against: Annotated[
        list[Path] | None, typer.Option(help="With dormant: the definitions in force. Default: as the lake shows them last.")
    ] = None,
    policies: Annotated[
        list[Path] | None, typer.Option(help="With dormant: what these policies say of the fields and their writers.")
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Also report mistakes that the API server accepts, and mark them.")
    ] = False,
    kubernetes_version: options.KubernetesVersion = options.DEFAULT_VERSION,
    limit: options.Limit = None,
    output: options.Output = Format.TABLE,
) -> int:
    """Check CustomResourceDefinitions or their objects, or ask the lake about the fields of a kind.

    check and objects exit with 2 if an API server would refuse one.
    """
    from api import asked_values
    from api.printing.output import render
    from api.stages.schema.fields import fields, kind_of
    from api.stages.schema.stored import dormant, stuck
    from pipeline.manifests.files import readable
    from pipeline.runs.window import Window
    from pipeline.stages.schema.checking import check_definitions, definition_documents, unreadable
    from pipeline.stages.schema.objects import Outcome, object_findings
    from pipeline.stages.schema.objects import unreadable as unreadable_object
    from queries import open_if_there

    own: Context = context.obj
    window, version = Window(*asked_values.parse_window(since, until)), asked_values.parse_version(kubernetes_version)
    if question is Question.FIELDS:
        return fields(own, kind_of(names or [], filename or []), filename or [], window, output, limit)
    files = [*map(Path, names or ()), *(filename or ())]
    if not files:
        raise InputError("no files are given", "give files or folders with -f")
    if question is Question.DORMANT:
        return dormant(own, files, against or [], policies or [], window, version, output, limit)
    if question is Question.STUCK:
        return stuck(own, files, window, version, output, limit)
    given, problems = readable(files)
    documents = definition_documents(given)
    if not documents and not problems:
        named = ", ".join(map(str, files))
        raise InputError(f"{named}: found no CustomResourceDefinition", "give files of apiextensions.k8s.io/v1 or v1beta1")
    if question is Question.OBJECTS:
        with own.progress("checking objects"):
            facts = [*map(unreadable_object, problems), *object_findings(given, version)]
        if not facts:
            raise InputError("found no object of the given definitions", "give files with objects of their kinds and versions")
        render([objects_table(facts)], output, limit=limit)
        return EXIT_REFUSED if any(each.outcome is Outcome.REFUSED for each in facts) else 0
    with own.progress("checking definitions"), open_if_there(own.lake) as reader:
        found = [*map(unreadable, problems), *check_definitions(documents, version, strict, reader)]
    render([findings_table(found, len(documents), len(problems))], output, limit=limit)
    return EXIT_REFUSED if any(each.enforced for each in found) else 0


def findings_table(found: Sequence[Finding], definitions: int, unread: int = 0) -> Table:
    """One row per error, in the order of the files."""
    from api.printing.output import Column, Table

    columns = [
        Column("where"),
        Column("enforced", "BY"),
        Column("field"),
        Column("message"),
        Column("definition", wide=True),
        Column("reason", wide=True),
    ]
    rows = [
        [each.where, "API server" if each.enforced else "strict", each.field, each.message, each.definition, each.reason]
        for each in found
    ]
    refused = len({(each.definition, each.where.rpartition(":")[0]) for each in found if each.enforced}) - unread
    notes = [f"{definitions} definitions, {refused} of them refused by the API server"]
    if unread:
        notes.append(f"{unread} files that cannot be decoded")
    if refused:
        notes.append(_BLOCKED)
    return Table("findings", columns, rows, "Errors of definitions", notes)


def objects_table(found: Sequence[ObjectFinding]) -> Table:
    """One row per fact about an object, in the order of the files."""
    from api.printing.output import Column, Table
    from pipeline.stages.schema.objects import Outcome

    columns = [Column("where"), Column("object"), Column("outcome"), Column("field"), Column("message")]
    rows = [[each.where, each.object, str(each.outcome), each.field, each.message] for each in found]
    refused = len({each.object for each in found if each.outcome is Outcome.REFUSED})
    objects = len({(each.object, each.where.rpartition(":")[0]) for each in found})
    notes = [
        f"{objects} objects, {refused} of them refused by the API server",
        "dropped: the API server removes the field before it stores the object; default: it adds the field",
    ]
    return Table("objects", columns, rows, "Objects as if they were created", notes)
