"""How the renderers word numbers and names, in one place so that no two reports differ."""

from __future__ import annotations

from datetime import datetime

from pipeline.readiness.measures import RolloutStep
from pipeline.readiness.model import Owner, PolicyReadiness, Status

from .model import Report


def day(ts: datetime | None) -> str:
    """`2026-11-21 03:24 UTC`, or `no time` where there is none."""
    return "no time" if ts is None else ts.strftime("%Y-%m-%d %H:%M UTC")


def percent(share: float) -> str:
    """`99.4 %`; never rounds up to 100 % nor down to 0 %, because the last request is the one that matters."""
    if 0.999 <= share < 1.0:
        return "> 99.9 %"
    if 0.0 < share < 0.001:
        return "< 0.1 %"
    return f"{share * 100:.3g} %"


def policy_name(entry: PolicyReadiness) -> str:
    """`policy / binding`, or `policy` alone where there is no binding or it has the same name."""
    return f"{entry.policy} / {entry.binding}" if entry.binding and entry.binding != entry.policy else entry.policy


def workload(owner: Owner) -> str:
    """`Deployment/cart (pods)`: the root owner, and the resource of the requests where that is another."""
    kind = owner.unit.partition("/")[0].lower()
    own = {kind, f"{kind}s", f"{kind}es", f"{kind[:-1]}ies"}
    return owner.unit if owner.resource.partition(".")[0] in own else f"{owner.unit} ({owner.resource})"


def answer(report: Report) -> str:
    """The report in one sentence: how many of its policies may go to Deny."""
    if not report.policies:
        return "No policy was replayed."
    whole = len(report.policies)
    if whole == 1:
        return _ALONE[report.policies[0].status]
    counts = {status: sum(entry.status is status for entry in report.policies) for status in Status}
    ready = f"{counts[Status.READY]:,}" if counts[Status.READY] else "None"
    others = [f"{counts[status]:,} {words}" for status, words in _OTHERS.items() if counts[status]]
    return f"{ready} of {whole:,} policies may go to Deny" + (f"; {', '.join(others)}." if others else ".")


_ALONE = {
    Status.READY: "This policy may go to Deny.",
    Status.READY_WITH_EXEMPTIONS: "This policy may go to Deny once its exemptions are in place.",
    Status.NOT_READY: "This policy must not go to Deny yet.",
    Status.INSUFFICIENT_EVIDENCE: "Too little is known to let this policy deny.",
}
_OTHERS = {
    Status.READY_WITH_EXEMPTIONS: "may with exemptions",
    Status.NOT_READY: "not ready",
    Status.INSUFFICIENT_EVIDENCE: "without enough evidence",
}


def exemptions_title(entry: PolicyReadiness) -> str:
    """What the exemptions of a policy are. Only those with which it is ready were all replayed and found to suffice."""
    is_ready = entry.status is Status.READY_WITH_EXEMPTIONS
    return "Exemptions with which the replay denies nothing" if is_ready else "Exemptions that it would take"


def step(found: RolloutStep) -> str:
    """One step of a rollout as a sentence: `Warn, Audit in pay-dev and shop-dev: no would-be denial there`."""
    where = f" in {', '.join(found.namespaces)}" if found.namespaces else " everywhere"
    return f"{', '.join(found.actions)}{where}" + (f": {found.why}" if found.why else "")
