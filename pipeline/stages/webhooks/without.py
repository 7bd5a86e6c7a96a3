"""What recorded requests would have met without one webhook.

What the webhook did is a fact of the log. What would have happened instead is a consequence, as far as the rest of the record
decides it: the API server asks later stages only if a request goes on, so that their answers may not be recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from ingest.counted import counted
from queries import LakeReader

from ...policies.model import PolicySet
from ...runs.plan import RunPlan
from .instead import keep_instead
from .sql import statement

_POLICY_ANSWERS = """
    CREATE OR REPLACE TEMP TABLE webhooks_policy_answers AS
    SELECT cluster, audit_id, ts, pass,
        CASE WHEN bool_or(decision = 'deny') THEN 'deny' WHEN bool_or(decision = 'error') THEN 'error'
            WHEN bool_or(decision = 'unknown') THEN 'unknown' WHEN bool_or(decision = 'admit') THEN 'admit'
            ELSE 'nomatch' END AS says
    FROM read_parquet($policy_verdicts) GROUP BY ALL"""
_NO_POLICIES = """
    CREATE OR REPLACE TEMP TABLE webhooks_policy_answers AS
    SELECT cluster, audit_id, ts, 0::INTEGER AS pass, '' AS says FROM requests WHERE false"""
# What ended a request that would otherwise have gone on.
ENDS = ("denied", "failed closed", "refused without a call")
_UNDECIDED = ("error", "unknown")


class Effect(NamedTuple):
    """Requests to which the webhook did the same; see sql/without_outcomes.sql."""

    said: str
    policy_says: str
    is_open: bool
    why: str
    asked_mutating: bool
    was_refused: bool
    denied_before: bool
    requests: int
    calls: int
    again: int
    mostly: str
    example: str

    @property
    def fact(self) -> str:
        """What the log says."""
        return {
            "denied": "the webhook denied the request",
            "failed closed": "the call failed, and failurePolicy Fail refused the request",
            "refused without a call": "a match condition failed, and failurePolicy Fail refused the request",
            "changed": "the webhook changed the object",
            "admitted": "the webhook admitted the request",
            "failed open": "the call failed, and failurePolicy Ignore let the request pass",
            "refused elsewhere": "the webhook was called, and another part of the server refused the request",
            "no answer": "the webhook was called, and its answer is not recorded",
            "unknown": "it is not known whether the webhook was called",
            "not reached": "the request ended before the webhook",
            "not called": "a selector or match condition kept the webhook out",
        }[self.said]

    @property
    def consequence(self) -> str:
        """What follows for these requests without the webhook."""
        if self.said in ENDS:
            return self._of_end()
        if self.said == "changed":
            return self._of_change()
        if self.said == "no answer" or self.said == "unknown":
            return f"unknown: {self.why}" if self.why else "unknown"
        return "the same, with one call less" if self.calls else "the same"

    def _of_end(self) -> str:
        if self.policy_says == "deny":
            return "still denied: a given policy decides deny"
        if self.policy_says in _UNDECIDED:
            return f"unknown: the answer of the given policies is {'an error' if self.policy_says == 'error' else 'unknown'}"
        more = ", and no given policy denies it" if self.policy_says else ""
        if self.is_open:
            return f"unknown: it goes on{more}, to webhooks or other stages whose answers are not recorded"
        return f"newly allowed by admission: no other webhook was for it{more}"

    def _of_change(self) -> str:
        """Policies judge the object without the changes; other webhooks would have seen it, too, and may answer otherwise."""
        denies = f"{self.why} (without these changes)"
        if self.policy_says not in ("deny", "admit"):
            return f"unknown: {self.why}"
        if self.policy_says == "deny" and not self.asked_mutating:
            return f"{'still' if self.was_refused else 'newly'} denied: {denies}"
        said = denies if self.policy_says == "deny" else "no policy denies the object without these changes"
        if self.is_open:
            return f"unknown: other webhooks were asked about the object with these changes; if they answer the same, {said}"
        if not self.was_refused:
            return f"the same outcome, stored without these changes: {said}"
        if self.denied_before:
            return f"newly allowed by admission: {said}"
        return f"unknown: something else than a policy refused the changed object; {said}"


class PatchedPath(NamedTuple):
    """A place that the webhook changed; see sql/without_patches.sql."""

    op: str
    path: str
    requests: int
    example: str


class Without(NamedTuple):
    """The requests that the rules of one webhook match, by what it did to them."""

    effects: tuple[Effect, ...]
    patches: tuple[PatchedPath, ...]

    def requests(self, *words: str) -> int:
        """How many requests have a consequence that begins with one of these words."""
        return sum(each.requests for each in self.effects if each.consequence.startswith(words))


class GivenPolicies(NamedTuple):
    """Policies that a user gave, with their verdicts on the recorded requests."""

    policies: PolicySet
    verdicts: Path


def without(
    reader: LakeReader,
    plan: RunPlan,
    verdicts: Path,
    webhook: str,
    configuration: str | None = None,
    given: GivenPolicies | None = None,
) -> Without:
    """What one recorded webhook did. `verdicts` are those of the recorded webhooks, the run of `plan`."""
    connection = reader.connection
    if given is None:
        connection.execute(_NO_POLICIES)
    else:
        connection.execute(_POLICY_ANSWERS, {"policy_verdicts": str(given.verdicts)})
    parameters = {"webhook": webhook, "configuration": configuration}
    told = {**parameters, "verdicts": str(verdicts), "has_policies": given is not None}
    connection.execute(statement("without"), told)
    keep_instead(reader, plan.window, plan.kubernetes_version, webhook, configuration, given.policies if given else None)
    effects = _joined(Effect(*row) for row in connection.execute(statement("without_outcomes")).fetchall())
    patches = tuple(PatchedPath(*row) for row in connection.execute(statement("without_patches"), parameters).fetchall())
    return Without(effects, patches)


def _joined(found: Iterable[Effect]) -> tuple[Effect, ...]:
    """Those with the same fact and consequence as one."""
    by_words: dict[tuple[str, str], Effect] = {}
    for each in found:
        key = (each.fact, each.consequence)
        first = by_words.get(key, each._replace(requests=0, calls=0, again=0))
        sums = {name: getattr(first, name) + getattr(each, name) for name in ("requests", "calls", "again")}
        by_words[key] = first._replace(**sums)
    return tuple(by_words.values())


def answer(found: Without) -> str:
    """Whether the webhook may go, as far as the recorded requests decide it."""
    allowed, denied, unknown = (found.requests(words) for words in ("newly allowed", "newly denied", "unknown"))
    changed = found.requests("the same outcome, stored without")
    reasons = [
        text
        for count, text in (
            (allowed, f"{counted(allowed, 'request')} that it ended would be newly allowed"),
            (denied, f"{counted(denied, 'request')} would be newly denied"),
        )
        if count
    ]
    if unknown:
        reasons.append(f"of {counted(unknown, 'request')} the outcome is unknown")
    if allowed or denied:
        return f"it may not go: {', and '.join(reasons)}"
    stored = f", but {counted(changed, 'object')} would be stored without its changes" if changed else ""
    if unknown:
        return f"not known: nothing is known to be newly allowed or denied{stored}, and {reasons[0]}"
    if not any(each.calls for each in found.effects):
        return "it may go: no recorded request called it"
    return f"it may go: nothing newly allowed, nothing newly denied{stored}"


def sentences(found: Without, has_policies: bool) -> Sequence[str]:
    """What the counts say, facts before consequences."""
    calls = sum(each.calls for each in found.effects)
    ended = sum(each.requests for each in found.effects if each.said in ENDS)
    changed = sum(each.requests for each in found.effects if each.said == "changed")
    again = sum(each.again for each in found.effects)
    words = [
        f"fact: {counted(calls, 'call')}, which would not have been made; it ended {counted(ended, 'request')}, "
        f"and changed {counted(changed, 'object')}",
        f"consequence: {counted(found.requests('newly allowed'), 'request')} newly allowed by admission, "
        f"{found.requests('newly denied'):,} newly denied, "
        f"{found.requests('still denied'):,} still denied, {found.requests('unknown'):,} unknown, "
        f"{found.requests('the same'):,} the same",
        "allowed by admission is not stored: quota and the store may still refuse it",
    ]
    if again:
        words.append(
            f"fact: after its changes, a second round began in {counted(again, 'request')}; without it, that depends on the others"
        )
    if ended and not has_policies:
        words.append("give policies with -f to see which of these requests they would deny instead")
    return words
