"""How the renderers word numbers and names, in one place so that no two reports differ."""

from __future__ import annotations

from ingest.counted import counted
from pipeline.readiness.change import Change, ChangedUnit, Fate, FateCount
from pipeline.readiness.exempting.measures import RolloutStep
from pipeline.readiness.model import Owner, PolicyReadiness, Status
from pipeline.readiness.report import Report

from .of_stage import words_of

_FIRST_SHOWN = 5


def policy_name(entry: PolicyReadiness) -> str:
    """`policy / binding`, or `policy` alone if the binding is missing or has the same name."""
    return f"{entry.policy} / {entry.binding}" if entry.binding and entry.binding != entry.policy else entry.policy


def workload(owner: Owner | ChangedUnit) -> str:
    """`Deployment/cart (pods)`: the root owner, and the resource of the requests where that is another."""
    kind = owner.unit.partition("/")[0].lower()
    own = {kind, f"{kind}s", f"{kind}es", f"{kind[:-1]}ies"}
    return owner.unit if owner.resource.partition(".")[0] in own else f"{owner.unit} ({owner.resource})"


def answer(report: Report) -> str:
    """The report in one sentence: how many policies may go to Deny, or how many make new denials."""
    if not report.policies:
        return "No policy was replayed."
    if any(entry.change is not None for entry in report.policies):
        return _change_answer(report)
    whole = len(report.policies)
    if whole == 1:
        alone = _ALONE if report.things == "policies" else _ALONE_OF_STAGE
        return alone[report.policies[0].status].format(things=report.things)
    counts = {status: sum(entry.status is status for entry in report.policies) for status in Status}
    ready = f"{counts[Status.READY]:,}" if counts[Status.READY] else "None"
    others = [f"{counts[status]:,} {words}" for status, words in _OTHERS.items() if counts[status]]
    may = "policies may go to Deny" if report.things == "policies" else f"{report.things} may be put into force"
    said = f"{ready} of {whole:,} {may}" + (f"; {', '.join(others)}." if others else ".")
    return f"{said} {together(report)}".rstrip()


def together(report: Report) -> str:
    """What the manifests of several stages do together, as a sentence; empty with one stage."""
    found = report.together
    if found is None:
        return ""
    by = [f"{each.requests:,} by {each.policy}" for each in found.first[:_FIRST_SHOWN]]
    if len(found.first) > _FIRST_SHOWN:
        by.append(f"{sum(each.requests for each in found.first[_FIRST_SHOWN:]):,} by others")
    more = f", {found.unknown:,} {'is' if found.unknown == 1 else 'are'} unknown" if found.unknown else ""
    refused = f"{found.refused:,} would newly be refused" + (f" ({', '.join(by)})" if by else "")
    return f"Together, of {counted(found.requests, 'request')} {refused}{more}."


def _change_answer(report: Report) -> str:
    counts = {status: sum(entry.status is status for entry in report.policies) for status in Status}
    words = {
        Status.NEW_DENIALS: "new denials",
        Status.INSUFFICIENT_EVIDENCE: "too little evidence to say",
        Status.NO_NEW_DENIALS: "no new denials",
    }
    found = [f"{text} in {counts[status]:,}" for status, text in words.items() if counts[status]]
    pairs = "pair" if len(report.policies) == 1 else "pairs"
    if report.things != "policies":
        return f"Against the version before, {', '.join(found)} of {len(report.policies):,}."
    return f"Against the version before, {', '.join(found)} of {len(report.policies):,} {pairs} of policy and binding."


def fate_count(count: FateCount) -> str:
    """`91 / 15`: requests and workloads."""
    return f"{count.requests:,} / {count.units:,}"


def fates(change: Change) -> list[tuple[Fate, FateCount]]:
    """New, kept and gone denials, then the other fates that occur."""
    always = (Fate.NEW, Fate.KEPT, Fate.GONE)
    return [
        (fate, change.count(fate))
        for fate in (*always, Fate.UNSURE, Fate.UNKNOWN, Fate.UNENFORCED)
        if fate in always or change.count(fate).requests
    ]


_ALONE = {
    Status.READY: "This policy may go to Deny.",
    Status.READY_WITH_EXEMPTIONS: "This policy may go to Deny once its exemptions are in place.",
    Status.NOT_READY: "This policy must not go to Deny yet.",
    Status.INSUFFICIENT_EVIDENCE: "Too little is known to let this policy deny.",
    Status.NO_NEW_DENIALS: "The change makes no new denials.",
    Status.NEW_DENIALS: "The change makes new denials.",
}
_ALONE_OF_STAGE = {
    Status.READY: "These {things} may be put into force.",
    Status.READY_WITH_EXEMPTIONS: "These {things} may be put into force together with those that the report lists.",
    Status.NOT_READY: "These {things} must not be put into force yet.",
    Status.INSUFFICIENT_EVIDENCE: "Too little is known to put these {things} into force.",
    Status.NO_NEW_DENIALS: "The change makes no new denials.",
    Status.NEW_DENIALS: "The change makes new denials.",
}
_OTHERS = {
    Status.READY_WITH_EXEMPTIONS: "may with exemptions",
    Status.NOT_READY: "not ready",
    Status.INSUFFICIENT_EVIDENCE: "without enough evidence",
}


def exemptions_title(entry: PolicyReadiness) -> str:
    """The title of a policy's exemptions. Only if it is ready with them were all replayed and found to suffice."""
    is_ready = entry.status is Status.READY_WITH_EXEMPTIONS
    if not words_of(entry).goes_to_deny:
        return "What would keep everybody working: a replay with it denies nothing new" if is_ready else "What it would take"
    return "Exemptions with which the replay denies nothing" if is_ready else "Exemptions that it would take"


def step(found: RolloutStep) -> str:
    """One step of a rollout as a sentence: `Warn, Audit in pay-dev and shop-dev: no would-be denial there`."""
    where = f" in {', '.join(found.namespaces)}" if found.namespaces else " everywhere"
    return f"{', '.join(found.actions)}{where}" + (f": {found.why}" if found.why else "")
