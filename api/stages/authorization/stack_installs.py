"""The tables of `hindcast stack` on installs, and on the namespaces that a cluster stack connects."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import closing
from typing import TYPE_CHECKING

from api.context import Context

if TYPE_CHECKING:
    from api.printing.output import Table
    from pipeline.stages.authorization.install_steps import Steps
    from pipeline.stages.authorization.installs import Flow, Install, Installer


def installs_tables(own: Context) -> list[Table]:
    """The tables of `stack --installs`: who may install stacks at the end of the log, the recorded installs, the objects that the
    stack manager created for each, and the cluster stacks that are installed twice."""
    from pipeline.authorization import RecordedRbac
    from pipeline.requests.past import load_history
    from pipeline.runs.window import Window
    from pipeline.stages.authorization.install_steps import install_steps
    from pipeline.stages.authorization.installs import installers, recorded_installs
    from queries import open_lake

    with closing(open_lake(own.lake)) as reader:
        found = recorded_installs(reader)
        rbac = RecordedRbac(load_history(reader, (), Window()))
        ends = reader.sql("SELECT cluster, max(ts) FROM requests GROUP BY cluster ORDER BY cluster").fetchall()
        steps = list(install_steps(reader, found))
        allowed = [(cluster, each) for cluster, end in ends for each in installers(rbac.at(cluster, end))]
    return [_allowed(allowed), _recorded(found), _steps(steps), _twice(found)]


def _allowed(found: Sequence[tuple[str, Installer]]) -> Table:
    from api.printing.output import Column, Table

    columns = [Column("install"), Column("who", may_shorten=True), Column("namespace"), Column("by", prose=True)]
    columns.append(Column("cluster", wide=True))
    rows = [[each.install, each.subject, each.namespace or "every", each.rule, cluster] for cluster, each in found]
    note = "by the roles that log and snapshots show at the end of the log; the group system:masters may, too"
    return Table("may_install", columns, rows, "Who may install stacks", (note,))


def _recorded(found: Iterable[Install]) -> Table:
    from api.printing.output import Column, Table

    columns = [Column("ts"), Column("install"), Column("user", may_shorten=True), Column("namespace"), Column("name")]
    columns += [Column("package", may_shorten=True, may_go=1), Column("result"), Column("audit_id", wide=True)]
    rows = [
        [each.ts, each.kind, each.user_name, each.namespace, each.name, each.version, _result(each), each.audit_id]
        for each in found
    ]
    return Table("installs", columns, rows, "Recorded installs")


def _steps(found: Iterable[Steps]) -> Table:
    from api.printing.output import Column, Table

    columns = [Column("install"), Column("name"), Column("manager", may_shorten=True), Column("created", prose=True)]
    columns += [Column("without_a_create", prose=True), Column("others", "OTHER OBJECTS", prose=True)]
    columns.append(Column("audit_id", wide=True))
    rows = [
        [each.install.kind, _named(each.install), each.manager or "unknown", *map(", ".join, each[2:]), each.install.audit_id]
        for each in found
    ]
    notes = (
        "the manager of an install is each user but the installer who wrote its object",
        "an object that existed before, or that the audit policy does not record, has no create",
    )
    return Table("steps", columns, rows, "Objects that the stack manager created for each install", notes)


def _named(each: Install) -> str:
    return f"{each.namespace}/{each.name}".removeprefix("/")


def _twice(found: Iterable[Install]) -> Table:
    from api.printing.output import Column, Table
    from pipeline.stages.authorization.installs import installed_twice

    columns = [Column("package"), Column("first"), Column("second"), Column("second_ts", "SINCE"), Column("user")]
    rows = [[first.package, _place(first), _place(second), second.ts, second.user_name] for first, second in installed_twice(found)]
    return Table(
        "twice", columns, rows, "Cluster stacks that are installed twice", ("a cluster has one version of a cluster stack",)
    )


def _place(each: Install) -> str:
    return f"{_named(each)} ({each.version})"


def flows_table(found: Sequence[Flow]) -> Table:
    """Where a cluster stack wrote, and for which claims of other namespaces, these first."""
    from api.printing.output import Column, Table
    from ingest.counted import counted

    columns = [Column("namespace"), Column("resource", may_shorten=True), Column("for_claims_in"), Column("requests", number=True)]
    columns += [Column("last_ts", may_go=1), Column("example", "AUDIT ID", wide=True)]
    rows = [
        [each.namespace or "(cluster)", each.resource, _claims(each), each.requests, each.last_ts, each.example]
        for each in sorted(found, key=lambda each: not each.crosses)
    ]
    crossing = sum(each.requests for each in found if each.crosses)
    unseen = sum(each.requests for each in found if not each.has_body)
    notes = (
        f"{counted(crossing, 'write')} connect two namespaces",
        *([f"{counted(unseen, 'write has', 'writes have')} no recorded body"] if unseen else []),
    )
    return Table("flows", columns, rows, "Namespaces that the stack wrote to", notes)


def _claims(each: Flow) -> str:
    if not each.has_body:
        return "unknown"
    if each.crosses:
        return str(each.from_namespace)
    return "the same namespace" if each.from_namespace else ""


def _result(each: Install) -> str:
    if not each.is_installed:
        return "refused"
    return "removed" if each.removed_ts else "installed"
