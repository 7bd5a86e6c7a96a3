"""The state of the cluster as of one moment: the objects that a policy evaluation looks up in addition to the request."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from .request import Evidence, Object


class World(Protocol):
    """The cluster as of one moment. Known(None) means that the object did not exist then; Unknown means that no record says."""

    def namespace(self, name: str) -> Evidence[Object | None]:
        """The whole Namespace object (most callers want its labels)."""
        ...

    def param(self, api_version: str, kind: str, namespace: str, name: str) -> Evidence[Object | None]:
        """One param object, complete with apiVersion and kind. `namespace` is empty for a cluster-scoped kind."""
        ...

    def params(self, api_version: str, kind: str, namespace: str) -> Evidence[Sequence[Object]]:
        """All objects of a param kind in one namespace (empty for a cluster-scoped kind), ordered by name."""
        ...

    def kind_is_namespaced(self, api_version: str, kind: str) -> Evidence[bool | None]:
        """Scope of a kind; Known(None) if the cluster did not serve that kind."""
        ...


class History(Protocol):
    """All moments of one cluster."""

    def at(self, cluster: str, ts: datetime) -> World:
        """The world as a request received at `ts` met it."""
        ...
