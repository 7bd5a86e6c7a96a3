"""The plan of a run: its requests and rules, counted before any request is judged. Its digest names the run.

A plan writes nothing and reads no clock. It can be printed, and the same rules over the same lake give the same run.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, ClassVar

from queries.catalog import LakeFiles

from ..authorization import OtherAuthorizers
from .window import Window

_PLACES = ("source", "written")


@dataclass(frozen=True, slots=True)
class PlannedRule:
    """One judged thing with one binding (None: without), and how many requests its rules may concern."""

    policy: str
    binding: str | None
    actions: tuple[str, ...]
    requests: int


@dataclass(frozen=True, kw_only=True)
class RunPlan:
    """What the plans of all stages have. `excluded` counts requests that will not be judged, by reason."""

    # Raised when the same plan would give other verdicts or another layout, so that older runs do not count as this one.
    FORMAT: ClassVar[int]

    stage: str
    kubernetes_version: tuple[int, int]
    window: Window
    lake_digest: str
    requests: int  # that the run will judge, or find unfit to be judged
    bindings: tuple[PlannedRule, ...]
    excluded: tuple[tuple[str, int], ...] = ()
    # Which authorizers each cluster has other than RBAC; empty where no rule asks an authorizer.
    other_authorizers: tuple[tuple[str, OtherAuthorizers], ...] = ()
    # Recorded rules that cannot be read, with the reasons. The lake's content and the window determine these too.
    unreadable: tuple[tuple[str, str], ...] = field(default=(), compare=False, repr=False)
    # The lake's files at planning. The run's name does not depend on them: the same events may lie in other files.
    files: LakeFiles | None = field(default=None, compare=False, repr=False)

    @property
    def run_id(self) -> str:
        """The name of the run: a digest of the plan, which holds one of the lake."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()[:16]

    @property
    def judged_by(self) -> Any:
        """The rules, as the stage read them; None where it takes them from the log, or the plan does not hold them."""
        return None

    def by_resource(self) -> Counter[tuple[str, str]]:
        """Requests by operation and resource, as in `("UPDATE", "deployments.apps/scale")`, as far as the plan has counted them."""
        return Counter()

    def to_json(self) -> str:
        """The plan as one JSON document, with the rules in full."""
        return json.dumps(self.document(), indent=1, sort_keys=True) + "\n"

    def document(self) -> dict[str, Any]:
        """The plan as JSON values."""
        return {
            "format": self.FORMAT,
            "stage": self.stage,
            "kubernetes_version": "{}.{}".format(*self.kubernetes_version),
            "window": {name: moment.isoformat() if moment else None for name, moment in self.window.parameters.items()},
            "lake": self.lake_digest,
            "other_authorizers": {cluster: str(others) for cluster, others in self.other_authorizers},
            "bindings": [dataclasses.asdict(item) for item in self.bindings],
            "requests": self.requests,
            "excluded": [{"reason": reason, "requests": count} for reason, count in self.excluded],
        }


def plain(value: Any) -> Any:
    """Rules as JSON values, without their places in files and their manifests, which do not change their meaning."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = (each.name for each in dataclasses.fields(value) if each.init and each.name not in _PLACES)
        return {name: plain(getattr(value, name)) for name in names}
    if isinstance(value, (set, frozenset)):
        return sorted((plain(item) for item in value), key=repr)
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    return value
