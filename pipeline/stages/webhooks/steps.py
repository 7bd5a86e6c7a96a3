"""How far a cluster has come on the way from a validating webhook to a policy.

The steps are those of KEP-3488, use case "Migrating from validating webhook to validation policy".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ingest.counted import counted

from ...policies.model import FailurePolicy, PolicySet
from .model import Configuration

STEPS = (
    "the webhook is in use",
    "the policy exists with failurePolicy Ignore",
    "the policy is bound, and is compared with the webhook",
    "the policy has failurePolicy Fail and is bound with Deny",
    "the webhook denies nothing any more",
    "the webhook has failurePolicy Ignore",
    "the webhook is deleted",
)


class Seen(NamedTuple):
    """The state at the end of a log. `hook_policy` has no value without the webhook, and `policy` none without the policy.

    `actions` are those of the policy's bindings. `denials` counts denials by the webhook since policy and bindings were last
    changed, `disagreements` compares both over the whole log.
    """

    hook_policy: FailurePolicy | None
    policy: FailurePolicy | None
    actions: frozenset[str]
    denials: int
    disagreements: int


class Step(NamedTuple):
    """One step. `missing` says what a user still has to do, and is empty for a done step."""

    number: int
    name: str
    done: bool
    missing: str


def seen_at(hooks: Sequence[Configuration], policies: PolicySet | None, webhook: str, names: frozenset[str]) -> Seen:
    """The webhook and the policy in force at the end of a log, before anything is counted."""
    hook = next((hook for each in hooks for hook in each.webhooks if hook.name == webhook), None)
    found = [policy for policy in policies.policies if policy.name in names] if policies else []
    bindings = [binding for binding in policies.bindings if binding.policy_name in names] if policies else []
    strictest = FailurePolicy.FAIL if all(each.failure_policy is FailurePolicy.FAIL for each in found) else FailurePolicy.IGNORE
    actions = frozenset(str(action) for binding in bindings for action in binding.validation_actions)
    return Seen(hook.failure_policy if hook else None, strictest if found else None, actions, 0, 0)


def steps(seen: Seen) -> tuple[int, tuple[Step, ...]]:
    """The number of the last step that is done without a gap before it, and all steps."""
    is_gone = seen.hook_policy is None
    is_bound = seen.policy is not None and bool(seen.actions)
    is_compared = is_bound and not seen.disagreements
    is_enforced = is_bound and seen.policy is FailurePolicy.FAIL and "Deny" in seen.actions
    is_silent = is_enforced and not seen.denials
    compared = (
        f"{counted(seen.disagreements, 'request disagrees', 'requests disagree')}"
        if seen.disagreements
        else "bind it with Audit or Warn"
    )
    denied = f"the webhook denied {counted(seen.denials, 'request')} since then" if seen.denials else "enforce the policy first"
    found = [
        (True, ""),
        (seen.policy is not None, "create the policy with failurePolicy Ignore"),
        (is_compared, compared),
        (is_enforced, "set failurePolicy Fail and bind the policy with Deny"),
        (is_silent, denied),
        (is_gone or seen.hook_policy is FailurePolicy.IGNORE, "set the webhook to Ignore (this step may be left out)"),
        (is_gone, "delete the webhook from its configuration"),
    ]
    made = tuple(
        Step(number, name, done, "" if done else missing)
        for number, (name, (done, missing)) in enumerate(zip(STEPS, found, strict=True), 1)
    )
    needed = [each for each in made if each.number != 6]
    gap = next((each.number for each in needed if not each.done), len(STEPS) + 1)
    return max(each.number for each in made if each.number < gap and each.done), made
