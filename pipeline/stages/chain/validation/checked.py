"""The doubts about a changed object that the rules settle, and the errors that they find."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from ....request import GroupVersionResource, Object
from ...mutating.changes import changes
from ...mutating.taken import Doubt
from ...mutating.verdicts import touch
from . import others, pods, workloads
from .rule import Refused, Rules, Written

_RULES: Final[Mapping[tuple[str, str], Rules]] = {
    ("", "pods"): pods.PODS,
    ("apps", "deployments"): workloads.DEPLOYMENTS,
    ("apps", "daemonsets"): workloads.DAEMON_SETS,
    ("apps", "statefulsets"): workloads.STATEFUL_SETS,
    ("batch", "jobs"): workloads.JOBS,
    ("batch", "cronjobs"): workloads.CRON_JOBS,
    ("rbac.authorization.k8s.io", "rolebindings"): others.BINDINGS,
    ("rbac.authorization.k8s.io", "clusterrolebindings"): others.BINDINGS,
    ("", "persistentvolumeclaims"): others.CLAIMS,
    ("", "services"): others.SERVICES,
    ("policy", "poddisruptionbudgets"): others.BUDGETS,
    ("networking.k8s.io", "ingresses"): others.INGRESSES,
    ("autoscaling", "horizontalpodautoscalers"): others.SCALERS,
}


class Checked(NamedTuple):
    """The errors of the validation, in the server's order, and the doubts that no rule settles."""

    errors: Sequence[Refused]
    doubts: Sequence[Doubt]


def checked(resource: GroupVersionResource, written: Written, doubts: Sequence[Doubt]) -> Checked:
    """What the rules say of a changed object of a built-in kind, about which there are these doubts."""
    rules = _RULES.get((resource.group, resource.resource), others.PLAIN)
    errors = [error for check in rules.checks for error in check(written)]
    changed = [each.path for each in changes(written.before, written.after)]
    return Checked(errors, [each for each in doubts if not _is_settled(each, changed, rules, errors)])


def every_error(resource: GroupVersionResource, value: Object, old: Object | None) -> list[Refused]:
    """All errors that the rules find in an object, whoever brought them about."""
    rules = _RULES.get((resource.group, resource.resource), others.PLAIN)
    return [error for check in rules.checks for error in check(Written({}, value, old))]


def _is_settled(doubt: Doubt, changed: Sequence[str], rules: Rules, errors: Sequence[Refused]) -> bool:
    """Whether the rules know all that changed below a doubt, or an error is about it."""
    # Where a whole entry is new, the doubt names a field of it.
    below = [path if len(path) >= len(doubt.path) else doubt.path for path in changed if touch(path, doubt.path)]
    return bool(below) and all(any(known.fullmatch(path) for known in rules.known) or _is_named(path, errors) for path in below)


def _is_named(path: str, errors: Sequence[Refused]) -> bool:
    plain = path.replace("[", ".").partition(".name=")[0]
    return any(touch(each.path.partition("[")[0], plain.partition("[")[0]) for each in errors)
