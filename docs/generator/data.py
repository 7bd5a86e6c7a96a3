"""The data dictionary: every view, macro, check and table, as the SQL files and schemas describe them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import duckdb
import pyarrow as pa

from ingest.schema import EVENTS, OBJECTS, REPEATS
from pipeline.runs.verdict import VERDICTS
from queries.catalog import LakeFiles, Statement, install, statements

from .text import join, table

# Tables with what one row is.
TABLES = {
    "events": ("one row per recorded stage of a request, as stored in Parquet", EVENTS),
    "objects": ("one row per object of a snapshot, as stored in Parquet", OBJECTS),
    "repeats": ("one row per event that arrived again from another source, as stored in Parquet", REPEATS),
    "verdicts": ("one row per verdict of a run: `hindcast replay --export` writes them", VERDICTS),
}


def page() -> str:
    """The page, as Markdown."""
    connection = duckdb.connect()
    install(connection, LakeFiles())
    known = {kind: [each for each in statements() if each.kind == kind] for kind in ("view", "macro", "check")}
    parts = ["# Data dictionary", _ABOUT, "## Views"]
    for view in sorted(known["view"], key=_place):
        parts += _view(view, connection)
    parts.append("## Macros")
    for macro in sorted(known["macro"], key=lambda each: each.name):
        parts += [f"### {macro.name}", _sentence(macro.promise), _names("argument", macro), macro.remark]
    parts += ["## Checks", _CHECKS]
    parts.append(
        table(
            ["check", "meaning"], [(f"`{each.name}`", each.promise) for each in sorted(known["check"], key=lambda each: each.name)]
        )
    )
    parts.append("## Stored tables")
    for name, (promise, schema) in TABLES.items():
        meanings = _OF_VERDICTS if name == "verdicts" else {}
        parts += [f"### {name} (stored)", _sentence(promise), _columns(schema, _MEANINGS | meanings)]
    return join(parts)


def _place(view: Statement) -> tuple[int, str]:
    """The views that people ask come first, then the others by name."""
    return (_ASKED.index(view.name) if view.name in _ASKED else len(_ASKED), view.name)


def _view(view: Statement, connection: duckdb.DuckDBPyConnection) -> Iterator[str]:
    yield f"### {view.name}"
    yield _sentence(view.promise)
    columns = connection.execute(f"DESCRIBE {view.name}").fetchall()
    rows = [(f"`{name}`", f"`{kind}`", view.names.get(name, _MEANINGS.get(name, ""))) for name, kind, *_ in columns]
    yield table(["column", "type", "meaning"], rows)
    yield view.remark


def _names(what: str, statement: Statement) -> str:
    return table([what, "meaning"], [(f"`{name}`", text) for name, text in statement.names.items()])


def _columns(schema: pa.Schema, meanings: Mapping[str, str]) -> str:
    rows = [
        (f"`{field.name}`", f"`{field.type}`", "yes" if field.nullable else "no", meanings.get(field.name, "")) for field in schema
    ]
    return table(["column", "type", "may be null", "meaning"], rows)


def _sentence(promise: str) -> str:
    return promise[:1].upper() + promise[1:] + ("" if promise.endswith((".", ":")) else ".")


# Columns that many views take from the event without change.
_MEANINGS = {
    "cluster": "the cluster's name, as ingested",
    "audit_id": "the Audit-ID of the request; a client may choose it",
    "ts": "when the API server received the request",
    "stage_ts": "when the API server reached this stage",
    "verb": "the verb of the request",
    "api_group": "the group of the resource; empty for the core group",
    "api_version": "the version of the resource",
    "resource": "the plural name of the resource",
    "subresource": "the subresource, if any",
    "namespace": "the namespace of the object; empty without one",
    "name": "the name of the object",
    "user_name": "the effective user: the impersonated one, if any",
    "code": "the HTTP status of the answer",
    "level": "the audit level of the event",
    "annotations": "the annotations of the event, by key",
    "complete": "false where no final stage was recorded",
    "extra": "JSON: fields of the event that have no column",
    "notes": "what Hindcast noted on the event, by name; no input reaches them",
    "review": "JSON: the AdmissionReviews that belong to the request",
    "flags": "marks of the event, such as `truncated`, `redacted`, `translated`",
    "impersonated_user": "JSON: the user as whom the request acted, if any",
    "impersonator": "the authenticated user where the request acted as another one; else null",
    "ingest_source": "the log file or the webhook that brought the event",
    "ingest_ts": "when Hindcast received or read the event",
    "kind": "the kind of the object",
    "obj_rv": "the resourceVersion that the request named",
    "obj_uid": "the uid of the object, where the event names it",
    "outcome": "what became of the request: `allowed`, `open`, or who refused it",
    "passed_number": "the number of `passed` in `reach_stages()`",
    "stopped_number": "the number of `stopped` in `reach_stages()`",
    "policy": "the name of the policy",
    "received_ts": "when the batch arrived",
    "request_object": "JSON: the body of the request, as recorded; null where the event has none",
    "response_object": "JSON: the body of the answer, as recorded; null where the event has none",
    "request_uri": "the path and the query of the request",
    "resource_version": "the resourceVersion of the object",
    "source": "where it came from: the log file, the snapshot, or the webhook",
    "source_ips": "the addresses of the client and of proxies, the client first",
    "stage": "the audit stage: RequestReceived, ResponseStarted, ResponseComplete or Panic",
    "stages": "how many stages of the request were recorded",
    "status_message": "the text of the answer's status",
    "status_reason": "the reason of the answer's status, such as `Forbidden`",
    "uid": "the uid of the object",
    "user_agent": "the client program, as it names itself",
    "user_extra": "JSON: the extra fields of the user",
    "user_groups": "the groups of the user",
    "user_uid": "the uid of the user",
    "vap_failures": "the failures of ValidatingAdmissionPolicies that the event carries",
    "observed_ts": "when the list was taken",
    "list_rv": "the resourceVersion of the list",
    "object": "JSON: the object",
    "conflicting": "whether the event differs from the one that is stored",
}
# Those of the table of verdicts.
_OF_VERDICTS = {
    "run_id": "the run",
    "pass": "which object of the request: a deletecollection has several",
    "binding": "the name of the binding; empty without one",
    "param_namespace": "the namespace of the param",
    "param_name": "the name of the param",
    "expression_index": "the index of the validation that decided",
    "decision": "the fact: what CEL, or the rules of the stage, said",
    "effect": "the consequence: what the API server would have done",
    "message": "the text that a client would have got",
    "reason": "the reason of the answer's status",
    "code": "the HTTP status that a client would have got",
    "why": "why the verdict is unknown, or why it is what it is",
    "evidence": "how good the evidence is, from `exact` to `insufficient`",
    "actions": "the validationActions of the binding",
    "audit_annotations": "the audit annotations that the policy would have written",
    "bypasses_actions": "whether it denies regardless of the binding's actions, as a configuration error does",
    "stage": "the stage of the API server that was replayed",
    "rule_ref": "the rule that decided, such as a Role or a webhook",
    "recorded": "what the log recorded of the request at this stage",
    "flip": "how the verdict differs from the record",
    "detail": "JSON: what only this stage says",
}
# The views that people ask come first; the others serve them.
_ASKED = ("requests", "violations", "denials", "events", "evidence", "losses", "sources", "audit_annotations", "objects")
_ABOUT = """This page is made from the SQL files and the schemas. `hindcast` answers from these views; in Python,
`open_lake(PATH).sql(...)` asks them. A type is one of DuckDB's or Arrow's."""
_CHECKS = "`hindcast doctor` runs these checks over the lake. `fail` means wrong data, and `warn` less evidence."
