"""`hindcast schema`: what an API server says of CustomResourceDefinitions, and of objects under them, before they are applied."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from api.context import Context
from api.output import Column, Format, Table, render
from ingest.errors import InputError
from pipeline.manifests.files import manifests_of, texts_of
from pipeline.stages.schema.checking import Finding, check_definitions, definition_documents
from pipeline.stages.schema.objects import ObjectFinding, Outcome, object_findings

from . import options

EXIT_REFUSED = 2
_BLOCKED = "a definition that is not structural has no pruning, no defaults, no conversion by webhook, and no published schema"


class Question(StrEnum):
    """What to ask about definitions."""

    CHECK = "check"
    OBJECTS = "objects"


def command(
    context: typer.Context,
    question: Annotated[
        Question, typer.Argument(help="check: the definitions; objects: the objects of the files, as if they were created.")
    ],
    files: Annotated[list[Path], typer.Argument(help="CustomResourceDefinitions, and objects of their kinds: files or folders.")],
    strict: Annotated[bool, typer.Option("--strict", help="Add what the API server does not look for, and mark it.")] = False,
    kubernetes_version: options.KubernetesVersion = "1.36",
    limit: options.Limit = None,
    output: options.Output = Format.TABLE,
) -> int:
    """Check CustomResourceDefinitions or their objects, and exit with 2 if an API server would refuse one."""
    own: Context = context.obj
    given = manifests_of(texts_of(files))
    documents = definition_documents(given)
    if not documents:
        named = ", ".join(map(str, files))
        raise InputError(f"{named}: found no CustomResourceDefinition", "give files of apiextensions.k8s.io/v1 or v1beta1")
    version = options.parse_version(kubernetes_version)
    if question is Question.OBJECTS:
        with own.progress("checking objects"):
            facts = list(object_findings(given, version))
        if not facts:
            raise InputError("found no object of the given definitions", "give files with objects of their kinds and versions")
        render([objects_table(facts)], output, limit=limit)
        return EXIT_REFUSED if any(each.outcome is Outcome.REFUSED for each in facts) else 0
    with own.progress("checking definitions"):
        found = list(check_definitions(documents, version, strict))
    render([findings_table(found, len(documents))], output, limit=limit)
    return EXIT_REFUSED if any(each.enforced for each in found) else 0


def findings_table(found: Sequence[Finding], definitions: int) -> Table:
    """One row per error, in the order of the files."""
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
    refused = len({each.definition for each in found if each.enforced})
    notes = [f"{definitions} definitions, {refused} of them refused by the API server"]
    if refused:
        notes.append(_BLOCKED)
    return Table("findings", columns, rows, "Errors of definitions", notes)


def objects_table(found: Sequence[ObjectFinding]) -> Table:
    """One row per fact about an object, in the order of the files."""
    columns = [Column("where"), Column("object"), Column("outcome"), Column("field"), Column("message")]
    rows = [[each.where, each.object, str(each.outcome), each.field, each.message] for each in found]
    refused = len({each.object for each in found if each.outcome is Outcome.REFUSED})
    objects = len({(each.object, each.where.rpartition(":")[0]) for each in found})
    notes = [
        f"{objects} objects, {refused} of them refused by the API server",
        "dropped: the API server removes the field before it stores the object; default: it adds the field",
    ]
    return Table("objects", columns, rows, "Objects as if they were created", notes)
