"""What a stage says of the actions of its bindings, where these warn or audit first, and deny later."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TypeAlias

from ..request import Object

# A label of namespaces, and its values.
Label: TypeAlias = tuple[str, Sequence[str]]


class Actions(ABC):
    """The answers of a stage to the questions of a rollout."""

    @abstractmethod
    def bound(
        self,
        own: Object | None,
        policy: str,
        name: str,
        actions: Sequence[str],
        namespaces: Sequence[str],
        label: Label | None = None,
    ) -> Object:
        """The binding of a policy with these actions in these namespaces (empty: all that it selects), as a step applies it.

        `own` is the present binding of this name, if there is one. With namespaces it is one next to that.
        A `label` that selects just these namespaces stands for their names.
        """
