"""The objects that a deletecollection may have listed, where its answer does not name them: one of them was refused.

Which of them the server reached depends on how many it deletes at once, so this bounds what webhooks met, and tells no more.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from queries import LakeReader

from ...history.event import Event
from ...history.kinds import by_resource
from ...history.options import query_of
from ...history.world import LogHistory
from ...matching.label_text import parse_label_selector
from ...matching.selectors import LabelSelector, SelectorError, is_doubtful, labels_of
from ...policies.model import ParamKind
from ...request import Known, Object
from ...requests.past import load_history
from ...runs.window import Window
from .sql import statement

# The history of the objects is held in memory. With more writes of a resource, its refused collections stay unknown.
_WRITES_MAX = 20_000
# A write that is answered this long after the request may have come before its list.
_IN_FLIGHT = timedelta(seconds=5)


class Collections:
    """The objects of the resources with refused deletecollections in a window."""

    def __init__(self, reader: LakeReader, window: Window) -> None:
        rows = reader.connection.execute(statement("collections"), {**window.parameters, "writes": _WRITES_MAX}).fetchall()
        self._kinds: dict[tuple[str, str, str], ParamKind] = {}
        for group, version, resource in rows:
            if (kind := by_resource(group, resource)) is not None:
                self._kinds[group, version, resource] = ParamKind(f"{group}/{version}".lstrip("/"), kind.kind)
        self._history: LogHistory | None = load_history(reader, self._kinds.values(), window) if self._kinds else None

    def listed(self, event: Event) -> list[Object]:
        """Each state in which an object may have been listed, in the order of names; empty where that is not known."""
        kind = self._kinds.get((event.resource.group, event.resource.version, event.resource.resource))
        if kind is None or self._history is None or not event.request_uri:
            return []
        try:
            selector = parse_label_selector(query_of(event.request_uri).get("labelSelector", [""])[0])
        except SelectorError:
            return []
        found: list[Object] = []
        for moment in (event.ts, event.stage_ts + _IN_FLIGHT):
            at_moment = self._at(event, kind, moment)
            if at_moment is None:
                return []
            found += [each for each in at_moment if _selects(selector, each) and each not in found]
        return found

    def _at(self, event: Event, kind: ParamKind, moment: datetime) -> list[Object] | None:
        assert self._history is not None
        world = self._history.at(event.cluster, moment)
        found = world.perhaps_listed(kind.api_version, kind.kind, event.namespace)
        return list(found.value) if isinstance(found, Known) else None


def _selects(selector: LabelSelector, value: Object) -> bool:
    return is_doubtful(selector, value) or selector.selects(labels_of(value) or {})
