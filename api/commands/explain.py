"""`hindcast explain`: why a policy decided as it did about one recorded request."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from contextlib import closing
from enum import StrEnum
from typing import Annotated

import typer

from api import asked_values
from api.context import Context
from api.given import given_of
from api.printing.explained import as_data, as_text
from api.work.explained_stages import ByStage, ExplainedStage
from api.work.explaining import Wanted, completed, one_request
from pipeline.admission.policies import PolicySet
from pipeline.manifests.files import manifests_of
from pipeline.readiness.explaining.explain import Asked
from pipeline.readiness.redaction import Redaction
from pipeline.report.texts import json_text, yaml_text
from pipeline.stages.assign import kind_of
from pipeline.stages.conditions.chain import Chain
from pipeline.stages.conditions.explain_recorded import explain_recorded
from pipeline.stages.registry import CONDITIONS
from queries import open_lake

from . import replay
from .parts import options
from .policies import parse_policies, read_texts, refuse_uncompilable

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
    other_authorizers: replay.OtherAuthorizersOption = None,
    stage: Annotated[
        ExplainedStage, typer.Option(help="Without -f: what to explain of that which the log shows in force.")
    ] = ExplainedStage.VALIDATING,
    output: Annotated[ExplanationFormat, typer.Option("-o", "--output", help="How to print it.")] = ExplanationFormat.TABLE,
) -> int:
    """Explain the verdict of policies on one recorded request: operands, deciding fields, unknown parts.

    Without -f these are the policies that were bound at the time of the request; --stage asks for webhooks or mutating policies of
    that time. Of a webhook it shows the rule, the selectors and the conditions that decide, and whether the request came to it.
    Of a mutating policy it shows each expression with its value, and each change. With an AuthorizerChain, explain what it makes
    of the request: of a list or watch what it may select, and of any other what each condition evaluates to.
    """
    own: Context = context.obj
    version = asked_values.parse_version(kubernetes_version)
    texts = read_texts(policies) if policies else []
    chains = _chains(texts)
    if chains:
        return _explain_chains(own, chains, Wanted(audit_id, cluster, at), version, output)
    asked = Asked(None, frozenset(policy or ()), version, redaction=Redaction(tuple(redact or ())))
    with closing(open_lake(own.lake)) as reader:
        question = ByStage(reader, completed(reader, Wanted(audit_id, cluster, at)), asked, other_authorizers)
        found = question.given(given_of(texts, version), lambda: _policies(texts, version)) if texts else question.recorded(stage)
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


def _policies(texts: Sequence[tuple[str, str]], version: tuple[int, int]) -> PolicySet:
    policies = parse_policies(texts)
    refuse_uncompilable(policies, version)
    return policies


def _chains(texts: Sequence[tuple[str, str]]) -> tuple[Chain, ...]:
    """The chains among the given manifests, if all of them are chains."""
    documents = manifests_of(texts)
    return CONDITIONS.read(documents) if documents and all(kind_of(each) in CONDITIONS.kinds for each in documents) else ()


def _explain_chains(
    own: Context, chains: tuple[Chain, ...], wanted: Wanted, version: tuple[int, int], output: ExplanationFormat
) -> int:
    with closing(open_lake(own.lake)) as reader:
        wanted = completed(reader, wanted)
        request = one_request(reader, wanted)
        found = [explain_recorded(reader, each, request["cluster"], wanted.audit_id, request["ts"], version) for each in chains]
    match output:
        case ExplanationFormat.JSON:
            sys.stdout.write(json_text({"explanations": [each.data() for each in found]}, indent=2) + "\n")
        case ExplanationFormat.YAML:
            data = {"explanations": [each.data() for each in found]}
            sys.stdout.write(yaml_text([data]))
        case _:
            sys.stdout.write("".join(f"{line}\n" for each in found for line in each.lines()))
    return 0
