"""`hindcast exemptions`: exemptions that leave no denial, and a review of existing ones."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from api.context import Context
from ingest.errors import InputError

from . import replay
from .parts import options

if TYPE_CHECKING:
    from api.given import Given, Judged, Texts
    from api.printing.output import Table
    from pipeline.readiness.exempting.exclusions import Exclusion
    from pipeline.readiness.exempting.proposal import Proposal
    from pipeline.readiness.exempting.review import Finding, Overdue
    from pipeline.request import Object
    from pipeline.stages.stage import Asked, Stage


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
    kubernetes_version: options.KubernetesVersion = options.DEFAULT_VERSION,
    expires: options.Expires = "90d",
    check: Annotated[
        bool,
        typer.Option("--check-exemptions", help="Review the existing exemptions instead."),
    ] = False,
    other_authorizers: options.OtherAuthorizersOption = None,
    workers: options.Workers = None,
    limit: options.Limit = None,
    output: Annotated[
        ExemptionFormat,
        typer.Option("-o", "--output", help="Print tables, or manifests or patches for kubectl."),
    ] = ExemptionFormat.TABLE,
    exit_code: Annotated[
        bool,
        typer.Option(
            "--exit-code",
            help="Exit with 1 when denials remain, also in the later half of the window. "
            "With --check-exemptions: when an exemption should go.",
        ),
    ] = False,
) -> int:
    """Find the fewest and narrowest exemptions that leave no denial, try them in a replay, and print them."""
    from api import asked_values
    from api.given import given_of, warn_of
    from pipeline.runs.window import Window
    from pipeline.stages.stage import Asked

    from .parts.texts import read_texts
    from .parts.window import check_window

    own: Context = context.obj
    window, version = Window(*asked_values.parse_window(since, until)), asked_values.parse_version(kubernetes_version)
    check_window(own, window)
    day = parse_expiry(expires, datetime.now(UTC).date())
    given = given_of(read_texts(policies), version, own.lake)
    warn_of(own, given)
    asked = Asked(window, version, other_authorizers)
    if check:
        return check_present(own, given, asked, workers, output.value, exit_code)
    found = list(_proposals(own, given.texts, given.stages, asked, day, replay.workers_or_default(own, workers)))
    for each in found:
        _print(each, output, limit)
    return int(exit_code and not all(each.denies_nothing and each.fits_later for each in found))


def _proposals(own: Context, texts: Texts, stages: Sequence[Judged], asked: Asked, day: date, workers: int) -> Iterator[Proposal]:
    """The exemptions for the manifests of each stage that knows any, tried in replays. Raises InputError where no stage does."""
    from api.given import walk
    from pipeline.readiness.flow import propose_exemptions
    from pipeline.readiness.rules import ReadinessRules
    from pipeline.readiness.run import run_stage
    from pipeline.runs import RunKind
    from pipeline.runs.processes import start_processes

    exempting = [(stage, rules) for stage, rules in stages if _knows_exemptions(stage, rules)]
    if not exempting:
        things = ", ".join(stage.readiness.words.things for stage, _ in stages)
        raise InputError(f"{things} have no exemptions", "`hindcast readiness` says what would keep everybody working")
    for stage, rules in stages:
        if not _knows_exemptions(stage, rules):
            things = stage.readiness.words.things
            own.warn(f"{things} have no exemptions: `hindcast readiness` says what would keep everybody working")
    start_processes(own.lake, workers)
    walked = walk(own, texts, workers)
    for stage, rules in exempting:
        run = run_stage(own.lake, stage, rules, asked, walked, RunKind.REPLAY)
        own.say("replaying with the exemptions, and what each one of them exempts")
        yield propose_exemptions(own.lake, run, ReadinessRules(), walked, day, own.note_defects)
        files = run.plan.files
        own.tell_window(run.plan.window.words(files.newest_us if files else None))


def _knows_exemptions(stage: Stage[Any, Any], rules: Any) -> bool:
    hooks = stage.readiness.exemptions
    return hooks is not None and bool(hooks.written(rules))


def parse_expiry(text: str, today: date) -> date:
    """`2026-11-21`, or `90d` from today. Raises InputError for anything else."""
    if span := _DAYS.match(text):
        return today + timedelta(days=int(span[1]))
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise InputError(f"--review-by: {text!r} is not a day", "give a date such as 2026-11-21, or days such as 90d") from None


def _print(proposal: Proposal, output: ExemptionFormat, limit: int | None) -> None:
    from api.printing.output import Format, render
    from pipeline.manifests.writing import comment, to_yaml
    from pipeline.readiness.exempting.manifests import json_patches, merge_patches
    from pipeline.report.texts import json_text

    match output:
        case ExemptionFormat.MANIFESTS:
            sys.stdout.write(proposal.after.to_yaml())
        case ExemptionFormat.MERGE_PATCH:
            for patch in merge_patches(proposal.before, proposal.after):
                is_new = (patch["kind"], patch["metadata"]["name"]) not in proposal.before.objects
                sys.stdout.write(f"---\n{comment(_kubectl(patch, is_new))}{to_yaml([patch])}")
        case ExemptionFormat.JSON_PATCH:
            sys.stdout.write(json_text(json_patches(proposal.before, proposal.after), indent=2) + "\n")
        case _:
            render([exemption_table(proposal), later_table(proposal), left_table(proposal)], Format(output), limit=limit)


def _kubectl(patch: Object, is_new: bool) -> str:
    """The command for one patch, because `kubectl patch` takes one document; a new object is created in place of a patch."""
    from pipeline.manifests.shell import command_line

    text = json.dumps(patch, separators=(",", ":"))
    if is_new:
        return f"{command_line(['printf', '%s', text])} | kubectl create -f -"
    kind, name = str(patch["kind"]).lower(), str(patch["metadata"]["name"])
    return command_line(["kubectl", "patch", kind, name, "--type=merge", "--patch", text])


def exemption_table(proposal: Proposal) -> Table:
    """One row per proposed exemption."""
    from api.printing.output import Column, Table

    counts = ("denied", "denied_workloads", "passing", "passing_workloads", "unknown")
    columns = [
        Column("policy", may_shorten=True),
        Column("on", may_go=1),
        Column("exempts", prose=True),
        Column("who", "WHO CAN USE IT", prose=True),
        *(Column(name, number=True, may_go=0 if name == counts[0] else 2) for name in counts),
        Column("review_by", may_go=1),
    ]
    rows = [
        [
            choice.policy,
            _place(item.exclusion),
            item.exclusion.words,
            proposal.who.get(item.exclusion, ""),
            item.width.denied_requests,
            item.width.denied_units,
            item.width.passing_requests,
            item.width.passing_units,
            item.width.unknown_requests,
            proposal.review_by.isoformat() if proposal.review_by else None,
        ]
        for choice in proposal.choices
        for item in choice.chosen
    ]
    day = f" {proposal.review_by.isoformat()}" if proposal.review_by else ""
    notes = (
        "denied, passing and unknown count the requests that an exemption exempts; overlaps count in each",
        "an exemption on a policy is a match condition, and holds for all of its bindings",
        f"review by{day}: a note in an annotation; no cluster enforces it",
    )
    return Table("exemptions", columns, rows, _title(proposal), notes if rows else ())


def _title(proposal: Proposal) -> str:
    """What the exemptions leave, by the replay with them; it names each policy with denials that remain."""
    remaining = [
        f"{choice.policy} ({proposal.left[choice.policy].denied:,})"
        for choice in proposal.choices
        if proposal.left[choice.policy].denied
    ]
    if remaining:
        return f"Exemptions in this window; with them, denials remain of {', '.join(remaining)}"
    return "Exemptions that leave no denial in this window"


def _place(exclusion: Exclusion) -> str:
    """What an exemption changes. A webhook is named CONFIGURATION/WEBHOOK."""
    if "/" in exclusion.policy:
        return "webhook"
    return f"binding {exclusion.binding}" if exclusion.binding else "policy"


def later_table(proposal: Proposal) -> Table:
    """How exemptions derived from the earlier half of the window perform in the later half."""
    from api.printing.output import Column, Table
    from pipeline.readiness.words import percent

    names = ("exemptions", "workloads", "workloads_denied", "new_workloads", "new_workloads_denied")
    columns = [
        Column("policy", may_shorten=True),
        *(Column(name, number=True, may_go=int(name == "exemptions")) for name in names),
        Column("new_rate_upper", "AT MOST", number=True),
    ]
    rows = [
        [choice.policy, *(getattr(choice.later, name) for name in names), percent(choice.later.new_rate_upper)]
        for choice in proposal.choices
        if choice.later is not None
    ]
    notes = (
        "exemptions come from the earlier half of the window; the other columns count workloads of the later half",
        "at most: the chance that a new workload is denied in spite of the exemptions (95% confidence)",
    )
    return Table("later", columns, rows, "Tried on the later half of the window", notes if rows else ())


def left_table(proposal: Proposal) -> Table:
    """The denials and unknowns that remain with the exemptions applied."""
    from api.printing.output import Column, Table

    columns = [Column("policy"), *(Column(name, number=True) for name in ("denied", "unknown", "exempt"))]
    rows = [
        [choice.policy, proposal.left[choice.policy].denied, proposal.left[choice.policy].unknown, choice.width.requests]
        for choice in proposal.choices
    ]
    notes = []
    if any(choice.left for choice in proposal.choices):
        notes.append(
            "some denials remain: errors of the configuration, and denials that only an exemption of a forbidden value, "
            "a controller or a whole resource would reach; Hindcast proposes no such exemption"
        )
    if any(left.unknown for left in proposal.left.values()):
        notes.append("unknown requests may be denied as well")
    return Table("left", columns, rows, "The replay with these exemptions", tuple(notes))


def check_present(own: Context, given: Given, asked: Asked, workers: int | None, output: str, exit_code: bool) -> int:
    """Print which existing exemptions of policies should be removed; returns 1 if there is one and `exit_code` is set.

    Raises InputError without policies, and for a format.
    """
    from api.printing.output import Format, render
    from pipeline.readiness.exempting.manifests import Manifests
    from pipeline.readiness.exempting.review import Need, overdue, review
    from pipeline.stages.registry import VALIDATING
    from queries import open_lake

    if output not in {form.value for form in Format}:
        raise InputError(f"--check-exemptions has no output {output}", f"use one of {', '.join(Format)}")
    manifests = Manifests.of(VALIDATING.readiness.exemptions.written(given.needed(VALIDATING)), VALIDATING.kinds)
    with closing(open_lake(own.lake)) as reader:
        own.say("replaying without each exemption")
        count = replay.workers_or_default(own, workers)
        findings = review(reader, own.lake, VALIDATING, manifests, asked, count, own.note_defects)
    late = overdue(manifests, datetime.now(UTC).date())
    render([finding_table(findings), *([overdue_table(late)] if late else [])], Format(output))
    should_go = late or any(item.need in (Need.NOT_NEEDED, Need.TOO_WIDE) for item in findings)
    return 1 if exit_code and should_go else 0


def finding_table(findings: tuple[Finding, ...]) -> Table:
    """One row per existing exemption."""
    from api.printing.output import Column, Table

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
        "denied, passing and unknown: requests that only this exemption exempts",
        "narrower: exemptions that exempt the same denials and fewer passing workloads",
    )
    return Table(
        "present", columns, rows, "Existing exemptions", notes if rows else ("the policies and bindings hold no exemption",)
    )


def overdue_table(late: tuple[Overdue, ...]) -> Table:
    """Exemptions whose review date has passed."""
    from api.printing.output import Column, Table

    rows = [[item.target, item.words, item.review_by.isoformat()] for item in late]
    return Table("overdue", [Column("target"), Column("exemption"), Column("review_by")], rows, "Exemptions past their review date")
