"""`hindcast stack`: the roles of a stack, what it used of them, and whether it stays in its namespace."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from api.commands.parts import options
from api.context import Context
from api.printing.output import Format
from ingest.errors import InputError
from pipeline.stages.authorization.stack_model import Place, StackModel

if TYPE_CHECKING:
    from api.printing.output import Table
    from pipeline.stages.authorization.stacks import Isolated, StackRight
    from pipeline.stages.authorization.unused import GrantedRule


def command(
    context: typer.Context,
    app: Annotated[Path | None, typer.Argument(help="The app.yaml of the stack: permissionScope, title, dependsOn.")] = None,
    service_account: Annotated[str, typer.Option(help="The service account of its controller, as NAMESPACE:NAME.")] = "",
    definitions: Annotated[
        list[Path] | None, typer.Option("-f", "--filename", help="CustomResourceDefinitions: a file or a folder; repeatable.")
    ] = None,
    install: Annotated[
        str | None, typer.Option(help="The kind of the install, StackInstall or ClusterStackInstall; it has to fit the scope.")
    ] = None,
    model: Annotated[StackModel, typer.Option(help="Which rights a stack gets.")] = StackModel.STACK_2019,
    installs: Annotated[
        bool, typer.Option("--installs", help="Show instead who may install stacks, who did, and cluster stacks installed twice.")
    ] = False,
    since: options.Since = None,
    until: options.Until = None,
    limit: options.Limit = None,
    output: options.Output = Format.TABLE,
) -> int:
    """Show where the requests of a stack went, and which of its rights it used; `-o yaml` prints the roles of the model."""
    from api import asked_values
    from api.commands.parts.window import check_window
    from api.printing.output import render
    from api.stages.authorization.stack_installs import flows_table, installs_tables
    from pipeline.manifests.files import manifests_of, texts_of
    from pipeline.manifests.writing import to_yaml
    from pipeline.runs.window import Window
    from pipeline.stages.authorization.asked import asked_questions
    from pipeline.stages.authorization.installs import flows
    from pipeline.stages.authorization.stacks import (
        CLUSTER,
        check_install,
        isolation,
        model_objects,
        stack_of,
        unused_rights,
        used_rights,
    )
    from pipeline.stages.schema.checking import definition_documents, read_definition
    from queries import open_lake

    own: Context = context.obj
    if installs:
        render(installs_tables(own), output, limit=limit)
        return 0
    if app is None:
        raise InputError("no app.yaml is given", "name the app.yaml of a stack, or ask with --installs")
    namespace, _, name = service_account.partition(":")
    if not namespace or not name:
        raise InputError(f"--service-account: {service_account!r} is not a service account", "give NAMESPACE:NAME")
    documents = definition_documents(manifests_of(texts_of(definitions or ())))
    for each in documents:
        read_definition(each)
    crds = [each.value for each in documents]
    stack = stack_of(read_app(app), str(app), crds, namespace, name)
    if install is not None:
        check_install(stack.scope, install)
    objects = model_objects(stack, model)
    unknown = [kind.name for kind in stack.depends_on if not kind.scope]
    if unknown:
        own.warn(f"the scope of {', '.join(unknown)} is unknown: no definition of it is given with -f")
    if output is Format.YAML:
        sys.stdout.write(to_yaml(objects, is_compact=True))
        return 0
    window = Window(*asked_values.parse_window(since, until))
    check_window(own, window)
    with closing(open_lake(own.lake)) as reader:
        questions = list(asked_questions(reader, window.since, window.until, user=stack.user))
        connected = flows(reader, stack.user) if stack.scope == CLUSTER else []
    used = list(used_rights(questions, stack, objects))
    unused = unused_table(unused_rights(used, objects))
    tables = [isolation_table(isolation(questions, stack)), rights_table(used, model), unused]
    render([*tables, *([flows_table(connected)] if connected else [])], output, limit=limit)
    return 0


def read_app(path: Path) -> object:
    """The value of an app.yaml. Raises InputError with the line."""
    from ingest.extent import yaml_values

    try:
        documents = yaml_values(path.read_bytes(), str(path))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    return documents[0] if documents else None


_SHOWN = (Place.BREACH, Place.ATTEMPT, Place.UNKNOWN)
_GRANTED = {False: "no", None: "unknown", True: "yes"}


def isolation_table(rows: Iterable[Isolated]) -> Table:
    """One row per kind of request outside of the namespace, the worst first; the others are counted in a note."""
    from api.printing.output import Column, Table

    found = list(rows)
    outside = [each for each in found if each.place in _SHOWN]
    severities = ("write", "secret read", "read", "None")
    outside.sort(key=lambda each: (_SHOWN.index(each.place), severities.index(str(each.severity)), -each.question.requests))
    columns = [Column("place"), Column("severity"), Column("verb"), Column("resource"), Column("namespace"), Column("name")]
    columns += [Column("requests", number=True), Column("last_ts"), Column("audit_id", wide=True)]
    rows_shown = [
        [
            *(str(each.place), str(each.severity or ""), each.asked.verb, _resource(each.asked.resource, each.asked.group)),
            *(each.asked.namespace, each.asked.name, each.question.requests, each.question.last_ts, each.question.example),
        ]
        for each in outside
    ]
    counted = {place: sum(each.question.requests for each in found if each.place is place) for place in Place}
    note = ", ".join(f"{place} {count:,}" for place, count in counted.items() if count)
    unknown = Counter[str]()
    for each in found:
        unknown[each.why] += each.question.requests if each.why else 0
    notes = [
        f"requests: {note or 'none'}",
        *(f"unknown: {count:,} {'request' if count == 1 else 'requests'}: {why}" for why, count in unknown.items() if count),
    ]
    return Table("isolation", columns, rows_shown, "Requests outside of the namespace", notes)


def rights_table(used: Sequence[StackRight], model: StackModel) -> Table:
    """One row per right that was used, those that the model does not grant first."""
    from api.printing.output import Column, Table

    columns = [Column("granted"), Column("verb"), Column("resource"), Column("namespace"), Column("requests", number=True)]
    columns += [Column("first_ts", wide=True), Column("last_ts")]
    counts: dict[tuple[str, str, str, str], list[StackRight]] = {}
    for each in used:
        resource = _resource(each.asked.resource, each.asked.group, each.asked.subresource)
        counts.setdefault((_GRANTED[each.is_granted], each.asked.verb, resource, each.asked.namespace), []).append(each)
    rows = [
        [
            *(*key, sum(each.question.requests for each in several)),
            *(min(each.question.first_ts for each in several), max(each.question.last_ts for each in several)),
        ]
        for key, several in sorted(counts.items())
    ]
    notes = [f"granted no: {model} would refuse these requests, which were allowed"]
    if any(each.is_granted is None for each in used):
        notes.append("granted unknown: the log does not show what these requests asked, or who made them")
    return Table("rights", columns, rows, "Used rights", notes)


def unused_table(rules: Iterable[GrantedRule]) -> Table:
    """One row per rule of the model with a part that was not used."""
    from api.printing.output import Column, Table
    from pipeline.authorization.covering import describe_rule

    columns = [Column("rule", prose=True), Column("requests", number=True), Column("possible", "POSSIBLE USES", number=True)]
    columns += [Column("unused_verbs"), Column("unused_resources")]
    rows = [
        [describe_rule(each.rule), each.requests, each.possible, ", ".join(each.unused_verbs), ", ".join(each.unused_resources)]
        for each in rules
    ]
    return Table("unused", columns, rows, "Granted and not used")


def _resource(resource: str, group: str, subresource: str = "") -> str:
    return f"{resource}.{group}".rstrip(".") + (f"/{subresource}" if subresource else "")
