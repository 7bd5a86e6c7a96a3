"""`hindcast exemptions`: what to exempt so that nothing would be denied, and which exemptions are there for nothing."""

from __future__ import annotations

import json
import re
import sys
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from api.context import Context
from api.output import Column, Format, Table, render
from ingest.errors import InputError
from pipeline.admission.policies import PolicySet
from pipeline.admission.policies.load import load_objects
from pipeline.readiness.manifests import Manifests, json_patches, merge_patches, to_yaml
from pipeline.readiness.proposal import Proposal, propose
from pipeline.readiness.review import Expiry, Finding, Need, expired, review
from pipeline.replay import Window
from queries import open_lake

from . import options, replay
from .policies import STDIN, chosen_policies

Expires = Annotated[str, typer.Option(help="The day on which exemptions are to go: YYYY-MM-DD, or days from now.")]
_DAYS = re.compile(r"(\d+)d\Z")


class ExemptionFormat(StrEnum):
    """Tables, and the manifests and patches to apply."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    MARKDOWN = "markdown"
    MANIFESTS = "manifests"
    MERGE_PATCH = "merge-patch"
    JSON_PATCH = "json-patch"


def command(
    context: typer.Context,
    policies: options.Policies = None,
    since: options.Since = None,
    until: options.Until = None,
    kubernetes_version: options.KubernetesVersion = "1.36",
    expires: Expires = "90d",
    check: Annotated[
        bool,
        typer.Option("--check", "--check-exemptions", help="Instead, say which of the exemptions that are there should go."),
    ] = False,
    other_authorizers: replay.OtherAuthorizersOption = None,
    workers: replay.Workers = None,
    output: Annotated[
        ExemptionFormat,
        typer.Option("-o", "--output", help="Tables; or the whole manifests, or what changes in them, to apply with kubectl."),
    ] = ExemptionFormat.TABLE,
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="Exit with 1 when denials remain, or with --check when an exemption should go.")
    ] = False,
) -> int:
    """Find the fewest and narrowest exemptions with which a replay denies nothing, and print them as patches to apply."""
    own: Context = context.obj
    window, version = Window(*options.parse_window(since, until)), options.parse_version(kubernetes_version)
    day = parse_expiry(expires, datetime.now(UTC).date())
    given = chosen_policies(own, policies, None, None, version)
    manifests = manifests_of(given, policies)
    if check:
        return check_present(own, manifests, window, version, workers, output.value, exit_code)
    plan = replay.plan_of(own, given, window, version, other_authorizers, workers)
    summary = replay.run(own, plan, workers)
    reader = open_lake(own.lake)
    try:
        own.say("replaying with the exemptions, and without each one of them")
        proposal = propose(reader, own.lake, plan, summary, manifests, day, replay.workers_or_default(workers))
    finally:
        reader.close()
    _print(proposal, output)
    return 1 if exit_code and not proposal.denies_nothing else 0


def manifests_of(policies: PolicySet, paths: list[Path] | None) -> Manifests:
    """The manifests of policies that were read from `paths`, as they were written; standard input cannot be read again."""
    return Manifests.of(policies, load_objects([path for path in paths or () if path != STDIN]))


def parse_expiry(text: str, today: date) -> date:
    """`2026-11-21`, or `90d` from today. Raises InputError for anything else."""
    if span := _DAYS.match(text):
        return today + timedelta(days=int(span[1]))
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise InputError(f"--expires: {text!r} is no day", "give a date such as 2026-11-21, or days such as 90d") from None


def _print(proposal: Proposal, output: ExemptionFormat) -> None:
    match output:
        case ExemptionFormat.MANIFESTS:
            sys.stdout.write(proposal.after.to_yaml())
        case ExemptionFormat.MERGE_PATCH:
            sys.stdout.write(to_yaml(merge_patches(proposal.before, proposal.after)))
        case ExemptionFormat.JSON_PATCH:
            sys.stdout.write(json.dumps(json_patches(proposal.before, proposal.after), indent=2, ensure_ascii=False) + "\n")
        case _:
            render([exemption_table(proposal), left_table(proposal)], Format(output))


def exemption_table(proposal: Proposal) -> Table:
    """One row per proposed exemption."""
    counts = ("denied", "denied_workloads", "passing", "passing_workloads", "unknown")
    columns = [
        Column("policy"),
        Column("on"),
        Column("exempts"),
        *(Column(name, number=True) for name in counts),
        Column("expires"),
    ]
    rows = [
        [
            choice.policy,
            f"binding {item.exclusion.binding}" if item.exclusion.binding else "policy",
            item.exclusion.words,
            item.width.denied_requests,
            item.width.denied_units,
            item.width.passing_requests,
            item.width.passing_units,
            item.width.unknown_requests,
            proposal.expires.isoformat() if proposal.expires else None,
        ]
        for choice in proposal.choices
        for item in choice.chosen
    ]
    notes = (
        "denied, passing and unknown are the requests that an exemption takes out of the policy's sight, overlaps counted in each",
        "an exemption on the policy is a match condition, and holds for all of its bindings",
    )
    return Table("exemptions", columns, rows, "Exemptions with which nothing would be denied", notes if rows else ())


def left_table(proposal: Proposal) -> Table:
    """What the replay with the exemptions applied still said."""
    columns = [Column("policy"), *(Column(name, number=True) for name in ("denied", "unknown", "out_of_sight"))]
    rows = [
        [choice.policy, proposal.left[choice.policy].denied, proposal.left[choice.policy].unknown, choice.width.requests]
        for choice in proposal.choices
    ]
    notes = []
    if any(choice.left for choice in proposal.choices):
        notes.append("some denials come from an error of the policy's configuration, which no exemption reaches")
    if any(left.unknown for left in proposal.left.values()):
        notes.append("what could not be judged is not clean: it may be denied")
    return Table("left", columns, rows, "The replay with them applied", tuple(notes))


def check_present(
    own: Context,
    manifests: Manifests,
    window: Window,
    version: tuple[int, int],
    workers: int | None,
    output: str,
    exit_code: bool,
) -> int:
    """Print which exemptions that are there should go; 1 if one should and `exit_code` asks. Raises InputError for a format."""
    if output not in {form.value for form in Format}:
        raise InputError(f"--check has no output {output}", f"use one of {', '.join(Format)}")
    reader = open_lake(own.lake)
    try:
        own.say("replaying without each exemption")
        findings = review(reader, own.lake, manifests, window, version, replay.workers_or_default(workers))
    finally:
        reader.close()
    late = expired(manifests, datetime.now(UTC).date())
    render([finding_table(findings), *([expiry_table(late)] if late else [])], Format(output))
    should_go = late or any(item.need in (Need.NOT_NEEDED, Need.TOO_WIDE) for item in findings)
    return 1 if exit_code and should_go else 0


def finding_table(findings: tuple[Finding, ...]) -> Table:
    """One row per exemption that is there."""
    columns = [
        Column("target"),
        Column("exemption"),
        Column("need"),
        *(Column(name, number=True) for name in ("denied", "passing", "unknown", "passing_share")),
        Column("narrower"),
    ]
    rows = [
        [
            item.target,
            item.words,
            item.need,
            item.width.denied_requests,
            item.width.passing_requests,
            item.width.unknown_requests,
            round(item.passing_share, 4),
            list(item.narrower),
        ]
        for item in findings
    ]
    notes = (
        "denied, passing and unknown: the requests that this exemption alone keeps out; what two keep out is behind neither",
        "narrower: exemptions that hide the same denials and fewer workloads that pass",
    )
    return Table("present", columns, rows, "Exemptions that are there", notes if rows else ("there are none",))


def expiry_table(late: tuple[Expiry, ...]) -> Table:
    """Exemptions that were to be gone by now."""
    rows = [[item.target, item.words, item.expires.isoformat()] for item in late]
    return Table("expired", [Column("target"), Column("exemption"), Column("expires")], rows, "Exemptions that have expired")
