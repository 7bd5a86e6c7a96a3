"""What is asked of every cluster, and a name for it: the same question keeps its answers under the same name."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

from ..authorization import OtherAuthorizers
from ..readiness.rules import ReadinessRules
from ..runs.window import Window

# Raised when the same question would get another answer, so that older answers do not count.
FORMAT = 1


@dataclass(frozen=True)
class Question:
    """The manifests as (source, text) pairs, and how they are judged.

    `kubernetes_version` None takes that of each cluster's API servers. `compares` with the record; `remedies` also looks for
    exemptions. With `replaces_all` the given roles replace all others.
    """

    texts: Sequence[tuple[str, str]]
    window: Window = field(default_factory=Window)
    kubernetes_version: tuple[int, int] | None = None
    rules: ReadinessRules = field(default_factory=ReadinessRules)
    other_authorizers: OtherAuthorizers | None = None
    compares: bool = True
    remedies: bool = True
    replaces_all: bool = False

    @property
    def manifests(self) -> str:
        """All manifests as one YAML text."""
        return "\n---\n".join(text for _, text in self.texts)

    @property
    def digest(self) -> str:
        """The name of the question."""
        window = {name: moment.isoformat() if moment else None for name, moment in self.window.parameters.items()}
        others = str(self.other_authorizers)
        flags = [self.compares, self.remedies, self.replaces_all]
        asked = [FORMAT, self.manifests, window, self.kubernetes_version, asdict(self.rules), others, flags]
        return hashlib.sha256(json.dumps(asked, default=str).encode()).hexdigest()[:16]
