"""New objects that no rule of the chain can tell apart: one is judged, and the others have its rows, with their own names.

See pipeline/stages/mutating/creates.py for what makes them alike there. Here their answers have to be alike, too: the plugins and
the validation read what the server added.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from ...history.event import decode_json
from ...policies.dispatch import CompiledSet
from ...request import AdmissionRequest, Evidence, Known, Object, Unknown
from ...row import Row
from ..mutating.creates import OWN, AlikeTargets, key_of, touches_own
from ..mutating.invocation import Outcome
from ..mutating.walk import Met, Walk
from .answer import STAGE
from .judging import ChainJudge
from .webhooks import WebhooksBehind

# What differs from one answer to the next: of its metadata, and the volume that the ServiceAccount plugin names by lot.
_OF_ANSWER: Final = frozenset((*OWN, "uid", "creationTimestamp", "resourceVersion", "managedFields"))
_TOKEN_VOLUME: Final = re.compile(rb"kube-api-access-[a-z0-9]{5}")
_BEGINNING: Final = re.compile(r'[A-Za-z0-9.-]+ "([^"]*)" is (?:forbidden|invalid): ')
# Distinct objects that are remembered.
_REMEMBERED_MAX: Final = 20_000

_encode = msgspec.json.Encoder().encode
Judge: TypeAlias = Callable[[Met], Sequence[Row]]


class AlikeRequests:
    """Judges requests, each kind of new object once."""

    def __init__(self, walk: Walk, judge: ChainJudge, webhooks: WebhooksBehind, given: CompiledSet, rows: Judge) -> None:
        """`rows` judges by `judge`, and `given` are the given validating policies."""
        self._rows, self._webhooks = rows, webhooks
        self._may_share = walk.is_steady
        self._targets = AlikeTargets((given, walk.validating, *(chain.set for chain in walk.chains.every)))
        self._found: dict[Hashable, tuple[str, Sequence[Row]]] = {}
        self._outcomes: list[Outcome] = []
        judge.ran = self._outcomes.append

    def __call__(self, met: Met) -> Sequence[Row]:
        """The rows of a request."""
        name = met.name.value if isinstance(met.name, Known) else ""
        key = self._key(met) if self._may_share and name else None
        if key is None:
            return self._rows(met)
        if (found := self._found.get(key)) is not None:
            return [renamed(row, found[0], name) for row in found[1]]
        self._outcomes.clear()
        rows = self._rows(met)
        if self._is_shared(met) and all(may_be_renamed(row, name) for row in rows):
            if len(self._found) >= _REMEMBERED_MAX:
                self._found.clear()
            self._found[key] = name, rows
        return rows

    def _key(self, met: Met) -> Hashable | None:
        found, raw = key_of(met), met.event.written_raw
        if found is None or raw is None or not self._targets.holds(met) or self._webhooks.may_read(met):
            return None
        answered = decode_json(raw)
        metadata = {name: each for name, each in (answered.get("metadata") or {}).items() if name not in _OF_ANSWER}
        text = _encode({**answered, "metadata": metadata})
        return found, _TOKEN_VOLUME.sub(b"", text)

    def _is_shared(self, met: Met) -> bool:
        """Whether the policies changed nothing that is an object's own."""
        request = met.request
        was = _own(request.object if isinstance(request, AdmissionRequest) else request)
        return all(not any(map(touches_own, outcome.invocations)) and _own(outcome.object) == was for outcome in self._outcomes)


def _own(found: Evidence[Object | None] | Unknown) -> Sequence[Any]:
    metadata = ((found.value if isinstance(found, Known) else None) or {}).get("metadata") or {}
    return [metadata.get(name) for name in OWN]


def may_be_renamed(row: Row, name: str) -> bool:
    """Whether the name of the object stands at most where the server's words begin with it."""
    rest = (row.message or "").removeprefix(_beginning(row, name))
    others = (row.why, row.detail, row.reason, *map(str, row.audit_annotations))
    return not any(name in each for each in (rest, *others) if each)


def renamed(row: Row, was: str, name: str) -> Row:
    """The row of a request with another name."""
    beginning = _beginning(row, was)
    if not beginning:
        return row
    return row._replace(message=beginning.replace(f'"{was}"', f'"{name}"') + (row.message or "").removeprefix(beginning))


def _beginning(row: Row, name: str) -> str:
    """How the words of an answer begin, if with the name: `pods "NAME" is forbidden: `. Other rows have the words of policies."""
    found = _BEGINNING.match(row.message or "") if row.stage == STAGE else None
    return found[0] if found is not None and found[1] == name else ""
