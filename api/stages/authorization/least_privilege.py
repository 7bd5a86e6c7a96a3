"""`hindcast least-privilege`: the smallest roles for what a user did, and the rights without use."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import TYPE_CHECKING, Annotated

import typer

from api.commands.parts import options
from api.context import Context
from api.printing.output import Format
from ingest.errors import EvidenceError, InputError

if TYPE_CHECKING:
    from api.printing.output import Table
    from pipeline.stages.authorization.beyond import Beyond
    from pipeline.stages.authorization.later import LaterRights
    from pipeline.stages.authorization.privileges import Privileges, Right
    from pipeline.stages.authorization.proof import Reason
    from pipeline.stages.authorization.rights_in_force import UseEvidence
    from pipeline.stages.authorization.unused import GrantedRule


_SHOWN = 5
_CONFIDENCE = 0.95


def command(
    context: typer.Context,
    subject: Annotated[
        str | None, typer.Option(help="The user, such as alice or system:serviceaccount:ci:deployer.", show_default=False)
    ] = None,
    unused: Annotated[
        bool, typer.Option("--unused", help="List the rules in force and their use instead. Without --subject: those of all users.")
    ] = False,
    since: options.Since = None,
    until: options.Until = None,
    cluster: Annotated[str | None, typer.Option(help="The cluster, if the lake has several.")] = None,
    names_max: Annotated[
        int, typer.Option("--max-names", min=1, help="A rule with more resourceNames than this number covers every name.")
    ] = 5,
    expand_verbs: Annotated[
        bool, typer.Option("--expand-verbs", help="Add the verbs that clients use together: get, list, watch; update, patch.")
    ] = False,
    collapse_namespaces: Annotated[
        bool,
        typer.Option(
            "--collapse-namespaces", help="Turn rights that the user has in several namespaces into a right in all namespaces."
        ),
    ] = False,
    defaults: Annotated[
        bool,
        typer.Option("--defaults/--no-defaults", help="Leave out rights that every authenticated user has, such as discovery."),
    ] = True,
    made_names: Annotated[
        bool,
        typer.Option(
            "--made-names/--exact-names",
            help="Turn rights for names that a server, a controller or a script made into rights for every name in the namespace.",
        ),
    ] = True,
    name: Annotated[str | None, typer.Option(help="The name of roles and bindings. Default: derived from the user.")] = None,
    kubernetes_version: options.KubernetesVersion = options.DEFAULT_VERSION,
    limit: options.Limit = None,
    output: options.Output = Format.YAML,
) -> int:
    """Print the smallest roles and bindings for what a user did, as YAML; `-o table` lists the rights with their use."""
    from api import asked_values
    from api.commands.parts.window import check_window
    from api.printing.output import render
    from pipeline.manifests.writing import comment, to_yaml
    from pipeline.requests.past import load_history
    from pipeline.runs.window import Window
    from pipeline.stages.authorization.least import LeastOptions
    from pipeline.stages.authorization.privileges import least_privilege
    from pipeline.stages.authorization.rights_in_force import rights_in_force
    from pipeline.stages.authorization.role_objects import default_name
    from queries import open_lake

    own: Context = context.obj
    window = Window(*asked_values.parse_window(since, until))
    version = asked_values.parse_version(kubernetes_version)
    check_window(own, window)
    reader = open_lake(own.lake)
    try:
        place = _cluster(cluster, [name for (name,) in reader.sql("SELECT DISTINCT cluster FROM events ORDER BY 1").fetchall()])
        history = load_history(reader, (), window)
        if unused:
            found = rights_in_force(reader, history, place, window.since, window.until, version, subject)
            render([unused_table(found.rules, subject)], Format.TABLE if output is Format.YAML else output, limit=limit)
            own.tell(_evidence(found.evidence))
            return 0
        if subject is None:
            raise InputError("no subject is given", "say with --subject whose roles are meant, or list all grants with --unused")
        wanted = LeastOptions(names_max, expand_verbs, collapse_namespaces, defaults, made_names)
        privileges = least_privilege(
            reader, history, place, subject, window, version, wanted, default_name(subject) if name is None else name
        )
        if not privileges.manifests:
            raise _nothing(privileges, subject, reader.sql("SELECT DISTINCT user_name FROM requests").fetchall())
    finally:
        reader.close()
    if output is Format.YAML:
        # Whoever applies the file later sees no terminal: it says itself what its roles refuse.
        for sentence in (_summary(privileges), *_proof(privileges)):
            sys.stdout.write(comment(sentence))
        sys.stdout.write(to_yaml(privileges.manifests, is_compact=True))
    elif output is Format.JSON:
        json.dump({"apiVersion": "v1", "kind": "List", "items": privileges.manifests}, sys.stdout, indent=2)
        sys.stdout.write("\n")
    else:
        tables = [rights_table(privileges.rights), refused_table(privileges.refused), beyond_table(privileges.beyond)]
        render(tables, output, limit=limit)
    for sentence in _remarks(privileges):
        own.tell(sentence)
    return 0


def _cluster(given: str | None, clusters: Sequence[str]) -> str:
    if given is not None and given not in clusters:
        raise InputError(f"the lake has no cluster {given!r}", f"it has {', '.join(clusters) or 'no events at all'}")
    if given is None and len(clusters) != 1:
        raise InputError(f"the lake has the clusters {', '.join(clusters) or 'none'}", "say with --cluster which is meant")
    return given or clusters[0]


def _nothing(privileges: Privileges, subject: str, users: Iterable[tuple[str]]) -> EvidenceError:
    from ingest.counted import counted

    if privileges.proof.check.unknown:
        several = f"{privileges.proof.check.unknown:,} of {privileges.requests:,} allowed requests of {subject}"
        return EvidenceError(
            f"the log does not show what {several} asked for",
            "roles need the URI of a request, or its object: ingest a log that has them",
        )
    if privileges.missing:
        left = "; ".join(f"{counted(each.requests, 'request')}: {each.reason}" for each in privileges.missing[:_SHOWN])
        return EvidenceError(f"no role can be written for {subject} from this log: {left}", "add the rights by hand")
    if privileges.requests:
        return EvidenceError(
            f"{subject} needs no role: every authenticated user may make its {privileges.requests:,} allowed requests",
            "--no-defaults writes roles for these, too",
        )
    alike = sorted(name for (name,) in users if name and subject.rpartition(":")[2] in name)[:_SHOWN]
    return EvidenceError(
        f"no allowed request of {subject} is recorded",
        f"did you mean {', '.join(alike)}?" if alike else "ingest its requests first",
    )


def _summary(found: Privileges) -> str:
    from ingest.counted import counted

    span = f"from {_moment(found.first_ts)} to {_moment(found.last_ts)}"
    return f"Least privilege of {found.subject} by {counted(found.requests, 'allowed request')} {span} in cluster {found.cluster}"


def _moment(ts: datetime | None) -> str:
    return ts.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if ts is not None else "the first event"


def _proof(found: Privileges) -> Iterable[str]:
    """What the roles allow and refuse of the recorded requests, and what they lack."""
    from ingest.counted import counted

    check, reasons = found.proof.check, found.proof.reasons
    unknown = f", {check.unknown:,} unknown" if check.unknown else ""
    yield (
        f"replay --only of this file: {check.allowed:,} of {counted(check.total, 'request')} allowed, "
        f"{check.refused:,} refused{unknown}"
    )
    yield from map(_reason, reasons)
    told = {each.why for each in reasons}
    for reason, requests, example in found.missing:
        if reason not in told:
            yield f"not in the roles, used by {counted(requests, 'request')}{f', such as {example}' if example else ''}: {reason}"


def _remarks(found: Privileges) -> Iterable[str]:
    """What a reader of the roles has to know, as sentences."""
    from ingest.counted import counted

    yield from _proof(found)
    yield from _later(found.later)
    yield from _width(found)
    if found.refused:
        names = ", ".join(f"{right.verb} {right.target}" for right in found.refused[:_SHOWN])
        more = f" and {len(found.refused) - _SHOWN:,} more" if len(found.refused) > _SHOWN else ""
        yield f"rights whose every recorded use was refused, and which the roles do not give: {names}{more}"
    if found.by_others:
        yield (
            f"{counted(found.by_others, 'request was', 'requests were')} allowed by another authorizer than "
            "RBAC, or for the group system:masters"
        )
    if found.granted:
        yield (
            f"the roles hold the rules of {counted(found.granted, 'role')} that the subject wrote: RBAC refuses "
            "to let it grant more"
        )
    if not found.reads:
        yield "no get, list or watch of this subject is recorded: if the audit policy leaves them out, the roles lack them"
    else:
        yield "the roles cover what the log records: requests that the audit policy leaves out are not in them"


def _reason(reason: Reason) -> str:
    example = f", such as {reason.example}" if reason.example else ""
    return f"  {reason.requests:,} {'unknown' if reason.is_unknown else 'refused'}{example}: {reason.why}"


def _evidence(found: UseEvidence | None) -> str:
    """What a rule without use rests on, and how often such a rule was used later."""
    from ingest.counted import counted
    from pipeline.readiness.counting.bounds import upper_bound

    if found is None:
        return "no request is recorded: that a rule has no use says nothing"
    span = f"{found.requests:,} allowed requests from {_moment(found.first_ts)} to {_moment(found.last_ts)}"
    bound = f"{upper_bound(found.used_after, found.unused_before, _CONFIDENCE):.0%}" if found.unused_before else "100%"
    return (
        f"use is judged by {span}. Of {counted(found.unused_before, 'rule')} without use before {_moment(found.middle)}, "
        f"{found.used_after:,} were used afterwards: with {_CONFIDENCE:.0%} confidence at most {bound} of such rules are used in a "
        "time like that half"
    )


def _later(later: LaterRights | None) -> Iterable[str]:
    """How well such roles last: those of the earlier half of the time, tried on the later half."""
    from ingest.counted import counted
    from pipeline.readiness.counting.bounds import upper_bound

    if later is None or not later.requests:
        yield "no later half to try the roles on: whether they last is not known"
        return
    lost = later.refused_rights + later.unknown_rights
    unknown = f", {later.unknown:,} unknown" if later.unknown else ""
    outcome = f"{later.allowed:,} of {counted(later.requests, 'request')} allowed, {later.refused:,} refused{unknown}"
    yield f"roles of the earlier half, tried on the half from {_moment(later.middle)}: {outcome}"
    examples = f", such as {', '.join(later.examples)}" if later.examples else ""
    bound = f"{upper_bound(lost, later.rights, _CONFIDENCE):.0%}" if later.rights else "100%"
    yield (
        f"  {lost:,} of {later.rights:,} rights of that half were lacking{examples}; {later.new_rights:,} were new. "
        f"With {_CONFIDENCE:.0%} confidence, at most {bound} of the rights of a time like it are lacking"
    )


def _width(found: Privileges) -> Iterable[str]:
    """What the roles allow in addition to the record."""
    by_reason = Counter(found.made.values())
    for reason, rights in by_reason.most_common():
        example = next(str(asked) for asked, why in sorted(found.made.items()) if why == reason)
        yield f"{rights:,} rights are for every name in place of a made one, such as {example}: {reason} (--exact-names)"
    for extent, group in groupby(found.beyond, key=lambda each: each.extent):
        wider = [f"{each.verb} {each.resource}{f' in {each.namespace}' if each.namespace else ''}" for each in group]
        more = f" and {len(wider) - _SHOWN:,} more (-o table)" if len(wider) > _SHOWN else ""
        yield f"allowed beyond the record, {extent}: {', '.join(wider[:_SHOWN])}{more}"


def beyond_table(found: Iterable[Beyond]) -> Table:
    """One row per right that allows more than was recorded."""
    from api.printing.output import Column, Table

    columns = [
        Column("namespace", may_shorten=True),
        Column("verb"),
        Column("resource", may_shorten=True),
        Column("extent", prose=True),
        Column("names", "RECORDED NAMES", number=True),
    ]
    rows = [[each.namespace, each.verb, each.resource, str(each.extent), each.names] for each in found]
    return Table("beyond", columns, rows, "Allowed beyond the record")


def rights_table(rights: Iterable[Right]) -> Table:
    """One row per right that was used."""
    return _rights_table("rights", rights, "Used rights")


def refused_table(rights: Iterable[Right]) -> Table:
    """One row per right that was asked for and refused."""
    return _rights_table("refused", rights, "Refused then, and not granted")


def _rights_table(key: str, rights: Iterable[Right], title: str) -> Table:
    from api.printing.output import Column, Table

    columns = [
        Column("namespace", may_shorten=True),
        Column("verb"),
        Column("resource", may_shorten=True),
        Column("name", may_shorten=True),
        Column("requests", number=True),
        Column("first_ts", wide=True),
        Column("last_ts", may_go=1),
    ]
    rows = [
        [right.namespace, right.verb, right.resource, right.name, right.requests, right.first_ts, right.last_ts] for right in rights
    ]
    return Table(key, columns, rows, title)


def unused_table(found: Iterable[GrantedRule], subject: str | None) -> Table:
    """One row per rule of a binding, those without use first."""
    from api.printing.output import Column, Table
    from pipeline.authorization.covering import describe_rule

    columns = [
        Column("namespace", may_go=1),
        Column("binding", may_shorten=True),
        Column("role", may_go=3),
        Column("subjects", wide=True),
        Column("rule", prose=True),
        Column("requests", number=True),
        Column("unused_verbs", prose=True, may_go=2),
        Column("unused_resources", wide=True),
        Column("possible", "POSSIBLE USES", number=True, may_go=1),
        Column("seen", "RECORDED OF ANYBODY", number=True),
    ]
    rows = [
        [
            each.namespace,
            each.binding,
            f"{each.role_kind} {each.role}",
            ", ".join(each.subjects),
            describe_rule(each.rule),
            each.requests,
            ", ".join(each.unused_verbs),
            ", ".join(each.unused_resources),
            each.possible,
            each.seen,
        ]
        for each in sorted(found, key=lambda each: (each.requests, each.possible, each.namespace, each.binding, each.role))
    ]
    whose = f" of {subject}" if subject else ""
    notes = (
        "requests: allowed requests of the binding's subjects that the rule allows; another rule may allow them, too",
        "possible uses: further requests that the log shows without the groups of their users, or without what they asked for",
        "recorded of anybody: 0 may mean that the audit policy does not record such requests",
    )
    return Table("grants", columns, rows, f"Rules in force{whose}, and their use", notes)
