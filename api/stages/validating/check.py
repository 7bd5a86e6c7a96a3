"""`hindcast policy check`: the type-check warnings that a cluster would write into the status of policies."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from api.context import Context
from ingest.errors import InputError

if TYPE_CHECKING:
    from api.printing.output import Format, Table
    from pipeline.openapi import Schemas
    from pipeline.policies.model import PolicySet
    from pipeline.stages.mutating.model import MutatingPolicy
    from pipeline.stages.validating.typecheck import CheckedRule, ExpressionWarning


_CRD = "CustomResourceDefinition"


@dataclass(frozen=True, slots=True)
class PolicyWarning:
    """One warning, and the policy that it is about."""

    policy: str
    source: str
    warning: ExpressionWarning


def check(
    own: Context, paths: list[Path] | None, openapi: Iterable[Path], version: tuple[int, int], form: Format, limit: int | None
) -> int:
    """Print the warnings of the policies in the files, and which kinds they were checked for.

    An API server type-checks no mutating policy, so those are only compiled.
    """
    from api.commands.parts.texts import read_texts
    from api.given import given_of, warn_of
    from api.printing.output import render
    from pipeline.policies.refusing import refuse_errors
    from pipeline.stages.mutating.compiled import too_new_expressions
    from pipeline.stages.registry import MUTATING, VALIDATING
    from pipeline.stages.validating.typecheck import checked_rules, expression_warnings
    from queries import open_if_there

    texts = read_texts(paths)
    read = given_of(texts, version, own.lake)
    warn_of(own, read)
    mutating: Sequence[MutatingPolicy] = read.rules_of(MUTATING).policies
    with open_if_there(own.lake) as reader:
        refuse_errors(too_new_expressions(mutating, version, reader))
    given = read.rules_of(VALIDATING)
    schemas = schemas_of(given, openapi)
    found = [
        PolicyWarning(policy.name, policy.source, warning)
        for policy in given.policies
        for warning in expression_warnings(policy, schemas, version)
    ]
    rules = [(policy.name, rule) for policy in given.policies for rule in checked_rules(policy, schemas)]
    render([warnings_table(found, len(given.policies), len(mutating)), kinds_table(rules)], form, limit=limit)
    return 0


def schemas_of(given: PolicySet, openapi: Iterable[Path]) -> Schemas:
    """The schemas of built-in kinds, of the given OpenAPI documents, and of the definitions among the given files."""
    from pipeline.openapi import Schemas, built_in_documents

    definitions = [each.object for each in given.objects if each.object.get("kind") == _CRD]
    return Schemas(definitions, [*built_in_documents(), *map(_document, openapi)])


def _document(path: Path) -> dict[str, Any]:
    from pipeline.manifests.files import text_of

    hint = "give the answer of: kubectl get --raw /openapi/v3/apis/GROUP/VERSION"
    try:
        value = json.loads(text_of(path.read_bytes(), str(path)))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except json.JSONDecodeError as error:
        raise InputError(f"{path}:{error.lineno}: found {error.msg.lower()}, wanted JSON", hint) from None
    schemas = value.get("components", {}).get("schemas") if isinstance(value, dict) else None
    if not isinstance(schemas, dict):
        raise InputError(f"{path}: found no components.schemas, wanted an OpenAPI v3 document", hint)
    return dict(value)


def warnings_table(found: Sequence[PolicyWarning], policies: int, mutating: int = 0) -> Table:
    """One row per expression with a warning; the text is that of the status. `mutating` policies were compiled alone."""
    from api.printing.output import Column, Table

    columns = [Column("policy"), Column("field_ref", "FIELD"), Column("warning"), Column("where", wide=True)]
    rows = [[each.policy, each.warning.field_ref, each.warning.warning, each.source] for each in found]
    warned = len({each.policy for each in found})
    notes = [
        f"{policies} policies, {warned} of them with a warning",
        "these are the texts of status.typeChecking.expressionWarnings; no API server reads them",
        "an expression with a warning may work for the objects that it meets, for example because it tests the kind first",
    ]
    if mutating:
        notes.append(f"mutating policies that compile: {mutating}; API servers write no type-check warnings for them")
    return Table("warnings", columns, rows, "Type-check warnings", notes)


def kinds_table(rules: Sequence[tuple[str, CheckedRule]]) -> Table:
    """One row per policy and resource that was not checked, and why."""
    from api.printing.output import Column, Table

    columns = [Column("policy", may_shorten=True), Column("resource", may_shorten=True), Column("checked"), Column("why")]
    rows = [[policy, rule.resource, rule.outcome, rule.why] for policy, rule in rules if rule.outcome != "yes"]
    unknown = sum(rule.outcome == "unknown" for _, rule in rules)
    notes = [
        f"{len(rules) - len(rows)} resources of rules were checked",
        "no: a cluster does not check it either; unknown: Hindcast has no schema of it, and the cluster may have one",
    ]
    if unknown:
        notes.append(
            "for a schema, add the CustomResourceDefinition to the files, "
            "or give --openapi the answer of: kubectl get --raw /openapi/v3/apis/GROUP/VERSION"
        )
    return Table("unchecked", columns, rows, "Resources of rules that were not checked", notes)
