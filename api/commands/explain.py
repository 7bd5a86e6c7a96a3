"""`hindcast explain`: why a policy decided as it did about one recorded request."""

from __future__ import annotations

import shutil
import sys
from contextlib import closing
from dataclasses import replace
from enum import StrEnum
from typing import Annotated

import click
import typer

from api.context import Context
from pipeline.stages.names import DEFAULT as DEFAULT_STAGE
from pipeline.stages.names import IN_LOG

from .parts import options

_WIDTH_MAX = 120


class ExplanationFormat(StrEnum):
    """How an explanation is printed; `wide` shows whole objects."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"


def command(
    context: typer.Context,
    audit_id: Annotated[str, typer.Argument(help="The audit ID of a request, or its unique beginning.", show_default=False)],
    policies: options.Policies = None,
    cluster: Annotated[str | None, typer.Option(help="The cluster of the request, where several have that audit ID.")] = None,
    policy: Annotated[list[str] | None, typer.Option(help="Explain only the policy of this name; repeatable.")] = None,
    at: Annotated[
        str | None, typer.Option(help="When the request was received, where several have that audit ID (RFC 3339).")
    ] = None,
    kubernetes_version: options.KubernetesVersion = options.DEFAULT_VERSION,
    redact: Annotated[
        list[str] | None,
        typer.Option("--hide", help="Remove this path from shown objects, as spec.containers[*].env; repeatable."),
    ] = None,
    other_authorizers: options.OtherAuthorizersOption = None,
    stage: Annotated[
        str,
        typer.Option(click_type=click.Choice(IN_LOG), help="Without -f: what to explain of that which the log shows in force."),
    ] = DEFAULT_STAGE,
    chain: Annotated[bool, typer.Option("--chain", help="With -f: the way through all stages, and the server's answer.")] = False,
    output: Annotated[ExplanationFormat, typer.Option("-o", "--output", help="How to print it.")] = ExplanationFormat.TABLE,
) -> int:
    """Explain the verdict of policies on one recorded request: operands, deciding fields, unknown parts.

    Without -f these are the policies that were bound at the time of the request; --stage asks for webhooks, mutating policies or
    levels of Pod Security of that time. Of a webhook it shows the rule, the selectors and the conditions that decide, and whether
    the request came to it. Of a mutating policy it shows each expression with its value, and each change. With an AuthorizerChain,
    explain what it makes of the request: of a list or watch what it may select, and of any other what each condition evaluates to.
    """
    from api import asked_values
    from api.given import chain_of, given_of
    from api.printing.explained import as_data, as_text
    from api.work.explained_stages import ByStage
    from api.work.explaining import Wanted, completed, request_of, unused_reviews
    from pipeline.explaining.asked import Asked
    from pipeline.explaining.redaction import Redaction
    from pipeline.report.texts import json_text, yaml_text
    from queries import open_lake

    from .parts.texts import read_texts

    own: Context = context.obj
    version = asked_values.parse_version(kubernetes_version)
    texts = read_texts(policies) if policies else []
    asked = Asked(frozenset(policy or ()), version, redaction=Redaction(tuple(redact or ())))
    with closing(open_lake(own.lake)) as reader:
        request = request_of(reader, completed(reader, Wanted(audit_id, cluster, at)))
        for sentence in unused_reviews(reader, request):
            own.warn(sentence)
        if other_authorizers is not None:
            asked = replace(asked, other_authorizers={request.cluster: other_authorizers})
        question = ByStage(reader, request, asked)
        if chain:
            found = question.by(*chain_of(texts, version))
        elif texts:
            found = question.given(given_of(texts, version, own.lake))
        else:
            found = question.recorded(stage)
    match output:
        case ExplanationFormat.JSON:
            sys.stdout.write(json_text({"explanations": [as_data(each) for each in found]}, indent=2) + "\n")
        case ExplanationFormat.YAML:
            data = {"explanations": [as_data(each) for each in found]}
            sys.stdout.write(yaml_text([data]))
        case _:
            width = min(shutil.get_terminal_size().columns, _WIDTH_MAX)
            whole = output is ExplanationFormat.WIDE
            sys.stdout.write("\n".join(as_text(each, width, whole=whole) for each in found))
    return 0
