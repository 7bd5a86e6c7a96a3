"""A way to enforce manifests in waves of namespaces: what to apply, what has to change first, and how to go back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from ..request import Object

# A second wave should need few people.
FEW_WORKLOADS = 2
CLEAN = "nothing would have been denied"
FEW = f"up to {FEW_WORKLOADS} workloads of each have to change"
MANY = "more workloads have to change, or too much is unknown"
REST = "the system, and what has no namespace or no traffic"


@dataclass(frozen=True, slots=True)
class Needed:
    """A workload that has to change before its namespace can follow, with the user to write to, and the change where it is known.

    `example` is the audit ID of the last such request; it and `user` are empty for an object that only a snapshot shows.
    """

    namespace: str
    unit: str
    requests: int
    user: str = ""
    example: str = ""
    change: str = ""


@dataclass(frozen=True, slots=True)
class Wave:
    """Namespaces that go together, after those before. Without namespaces it is for all that the manifests select.

    The user applies `manifests`. To go back, the user runs `removals`, the commands that take away what the wave adds, and applies
    `back`, the manifests of before. `remarks` name what the log does not show of before.
    """

    number: int
    why: str
    namespaces: tuple[str, ...]
    requests: int
    needed: tuple[Needed, ...]
    manifests: tuple[Object, ...]
    back: tuple[Object, ...] = ()
    removals: tuple[tuple[str, ...], ...] = ()
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Tried:
    """The choice of wave 1 by the earlier half alone, tried on the later half: `denied` of `namespaces` would have had a denial.

    `upper` is the bound of their share. `since` is when the later half begins.
    """

    namespaces: int
    denied: int
    since: datetime
    upper: float = 1.0


@dataclass(frozen=True, slots=True)
class Rollout:
    """The waves of one judged thing and its binding. `needs` are the manifests without which those of a wave judge nothing."""

    policy: str
    binding: str | None
    waves: tuple[Wave, ...]
    tried: Tried
    needs: tuple[Object, ...] = ()

    @property
    def name(self) -> str:
        """What its files are named after."""
        return self.binding or self.policy

    @property
    def first(self) -> Wave | None:
        """Wave 1, which can begin today; None where nothing can."""
        return self.waves[0] if self.waves and self.waves[0].why == CLEAN else None

    def checked(self, wave: Wave) -> tuple[Object, ...]:
        """The manifests of a wave with what they need, as a replay, a gate or a watch of this wave takes them."""
        return (*self.needs, *wave.manifests)


def label_of(chosen: Sequence[str], labels: Mapping[str, Mapping[str, str] | None]) -> tuple[str, tuple[str, ...]] | None:
    """A label, and its values, that select exactly these of all known namespaces; None where none does in fewer words.

    `labels` are those of each known namespace, or None where they are not known.
    """
    own = [labels.get(name) for name in chosen]
    others = [labels[name] for name in labels.keys() - set(chosen)]
    if not own or None in own or None in others:
        return None
    found = []
    for key in sorted(set.intersection(*(set(each or ()) for each in own))):
        values = {(each or {})[key] for each in own}
        if len(values) < len(own) and not any((each or {}).get(key) in values for each in others):
            found.append((key, tuple(sorted(values))))
    return min(found, key=lambda each: (len(each[1]), each[0]), default=None)
