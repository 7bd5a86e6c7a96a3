"""From labels of a namespace to the policy in force: a level and a version per mode, with the texts of invalid labels.

Follows k8s.io/pod-security-admission api/helpers.go (ParseLevel, ParseVersion, PolicyToEvaluate).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from ...cel.library.gotext import quote
from .checks.table import Level

PREFIX = "pod-security.kubernetes.io/"
LATEST = "latest"
_VERSION = re.compile(r"v1\.(0|[1-9][0-9]*)", re.ASCII)
NO_LEVEL = "must be one of privileged, baseline, restricted"
NO_VERSION = 'must be "latest" or "v1.x"'


class Mode(StrEnum):
    """What becomes of a violation."""

    ENFORCE = "enforce"
    AUDIT = "audit"
    WARN = "warn"


MODES = tuple(Mode)
LABELS = tuple(name for mode in MODES for name in (str(mode), f"{mode}-version"))


class LevelVersion(NamedTuple):
    """A level at a version, as it is printed: the version is that of the label, not the one whose rules hold."""

    level: Level
    version: str = LATEST

    def __str__(self) -> str:
        return f"{self.level}:{self.version}"

    def minor(self, newest: int) -> int:
        """The minor version whose rules hold on a server of this minor version."""
        return newest if self.version == LATEST else min(int(self.version.removeprefix("v1.")), newest)


PRIVILEGED = LevelVersion(Level.PRIVILEGED)
Policy: TypeAlias = Mapping[Mode, LevelVersion]
DEFAULT: Policy = dict.fromkeys(MODES, PRIVILEGED)


@dataclass(frozen=True)
class Resolved:
    """The policy that some labels give. `errors` are the texts of invalid labels; `labelled` are the modes that labels decide."""

    policy: Policy
    errors: Sequence[str] = ()
    labelled: frozenset[Mode] = frozenset()

    @property
    def error(self) -> str:
        """All errors as one text, each once; empty without errors."""
        found = list(dict.fromkeys(self.errors))
        return found[0] if len(found) == 1 else f"[{', '.join(found)}]" if found else ""

    def are_privileged(self, *modes: Mode) -> bool:
        """Whether these modes have no error and refuse nothing."""
        return not self.errors and all(self.policy[mode].level is Level.PRIVILEGED for mode in modes)


def own_labels(labels: Mapping[str, str] | None) -> dict[str, str]:
    """The labels of Pod Security among those of a namespace, without their prefix."""
    return {name: found for name in LABELS if (found := (labels or {}).get(PREFIX + name)) is not None}


def is_level(text: str) -> bool:
    """Whether a text is a level."""
    return text in list(Level)


def is_version(text: str) -> bool:
    """Whether a text is a version."""
    return text == LATEST or _VERSION.fullmatch(text) is not None


def resolve(labels: Mapping[str, str], defaults: Policy) -> Resolved:
    """The policy of a namespace with these labels, as own_labels returns them."""
    policy = {mode: _of_mode(mode, labels, defaults[mode]) for mode in MODES}
    labelled = {mode for mode in MODES if mode in labels or f"{mode}-version" in labels}
    enforce = policy[Mode.ENFORCE]
    follows = Mode.WARN not in labels and is_level(labels.get(Mode.ENFORCE, ""))
    if follows and enforce.level.strictness > policy[Mode.WARN].level.strictness:
        version = policy[Mode.WARN].version if "warn-version" in labels else enforce.version
        policy[Mode.WARN] = LevelVersion(enforce.level, version)
        labelled.add(Mode.WARN)
    return Resolved(policy, tuple(_errors(labels)), frozenset(labelled))


def _of_mode(mode: Mode, labels: Mapping[str, str], default: LevelVersion) -> LevelVersion:
    level, version = labels.get(mode), labels.get(f"{mode}-version", default.version)
    if level is None:
        found = default.level
    elif is_level(level):
        found = Level(level)
    else:
        found = Level.RESTRICTED if mode is Mode.ENFORCE else Level.PRIVILEGED
    return LevelVersion(found, version if is_version(version) else LATEST)


def _errors(labels: Mapping[str, str]) -> Iterator[str]:
    for name, value in labels.items():
        is_valid, wanted = (is_version, NO_VERSION) if name.endswith("-version") else (is_level, NO_LEVEL)
        if not is_valid(value):
            yield f"metadata.labels[{PREFIX}{name}]: Invalid value: {quote(value)}: {wanted}"
