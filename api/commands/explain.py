"""`hindcast explain`: why a policy decided as it did about one recorded request."""

from __future__ import annotations

import json
import shutil
import sys
from enum import StrEnum
from typing import Annotated

import typer
import yaml

from api.context import Context
from api.explained import as_data, as_text
from api.explaining import Wanted, explain_one
from pipeline.readiness.explain import Asked
from pipeline.readiness.redaction import Redaction
from queries import open_lake

from . import options, replay
from .policies import read_policies, refuse_uncompilable

_WIDTH_MAX = 120


class ExplanationFormat(StrEnum):
    """How an explanation is printed; `wide` shows whole objects."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"


def command(
    context: typer.Context,
    audit_id: Annotated[str, typer.Argument(help="The audit ID of a recorded request.", show_default=False)],
    policies: options.Policies = None,
    cluster: Annotated[str | None, typer.Option(help="The cluster of the request, where several have that audit ID.")] = None,
    policy: Annotated[list[str] | None, typer.Option(help="Explain only the policy of this name; repeat it.")] = None,
    at: Annotated[
        str | None, typer.Option(help="When the request was received, where several have that audit ID (RFC 3339).")
    ] = None,
    kubernetes_version: options.KubernetesVersion = "1.36",
    redact: Annotated[
        list[str] | None,
        typer.Option(help="Take this path out of the objects that are shown, as spec.containers[*].env; repeat it."),
    ] = None,
    other_authorizers: replay.OtherAuthorizersOption = None,
    output: Annotated[ExplanationFormat, typer.Option("-o", "--output", help="How to print it.")] = ExplanationFormat.TABLE,
) -> int:
    """Explain the verdict of policies on one recorded request: operands, deciding fields, unknown parts.

    Without -f these are the policies that were bound at the time of the request.
    """
    own: Context = context.obj
    version = options.parse_version(kubernetes_version)
    given = read_policies(policies) if policies else None
    if given is not None:
        refuse_uncompilable(given, version)
    asked = Asked(given, frozenset(policy or ()), version, redaction=Redaction(tuple(redact or ())))
    reader = open_lake(own.lake)
    try:
        found = explain_one(reader, Wanted(audit_id, cluster, at), asked, other_authorizers)
    finally:
        reader.close()
    match output:
        case ExplanationFormat.JSON:
            sys.stdout.write(json.dumps({"explanations": [as_data(each) for each in found]}, indent=2, ensure_ascii=False) + "\n")
        case ExplanationFormat.YAML:
            data = {"explanations": [as_data(each) for each in found]}
            yaml.safe_dump(data, sys.stdout, sort_keys=False, allow_unicode=True)
        case _:
            width = min(shutil.get_terminal_size().columns, _WIDTH_MAX)
            whole = output is ExplanationFormat.WIDE
            sys.stdout.write("\n".join(as_text(each, width, whole=whole) for each in found))
    return 0
