"""`hindcast schema check`: what an API server says of CustomResourceDefinitions, before they are applied."""

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

from . import options

EXIT_REFUSED = 2
_BLOCKED = "a definition that is not structural has no pruning, no defaults, no conversion by webhook, and no published schema"


class Question(StrEnum):
    """What to ask about definitions."""

    CHECK = "check"


def command(
    context: typer.Context,
    question: Annotated[Question, typer.Argument(help="check: what an API server says of the definitions.")],
    files: Annotated[list[Path], typer.Argument(help="CustomResourceDefinitions: files or folders.")],
    strict: Annotated[bool, typer.Option("--strict", help="Add what the API server does not look for, and mark it.")] = False,
    kubernetes_version: options.KubernetesVersion = "1.36",
    limit: options.Limit = None,
    output: options.Output = Format.TABLE,
) -> int:
    """Check CustomResourceDefinitions, and exit with 2 if an API server would refuse one."""
    own: Context = context.obj
    documents = definition_documents(manifests_of(texts_of(files)))
    if not documents:
        named = ", ".join(map(str, files))
        raise InputError(f"{named}: found no CustomResourceDefinition", "give files of apiextensions.k8s.io/v1 or v1beta1")
    with own.progress("checking definitions"):
        found = list(check_definitions(documents, options.parse_version(kubernetes_version), strict))
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
