"""The traces of webhooks in the record of a request.

The API server annotates every attempt to call a mutating webhook, every applied patch, and every call that failed open. (See
kubernetes/apiserver pkg/admission/plugin/webhook/{mutating,validating}/dispatcher.go.) A validating webhook that admits leaves
no trace. A denial or failure that ended the request is in the message of the answer.

A server that shall not deny yet may allow a request, and note its message in its audit annotation `would-deny`. The API server
stores this annotation as `WEBHOOK/would-deny`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

_ATTEMPT = re.compile(r"^mutation\.webhook\.admission\.k8s\.io/round_([0-9]{1,9})_index_([0-9]{1,9})$")
_PATCH = re.compile(r"^patch\.webhook\.admission\.k8s\.io/round_([0-9]{1,9})_index_([0-9]{1,9})$")
_FAILED_OPEN = re.compile(r"^failed-open\.(mutation|validating)\.webhook\.admission\.k8s\.io/round_\d+_index_\d+$")
_DENIED = re.compile(r'^admission webhook "([^"]*)" denied the request')
_FAILED = re.compile(r'^Internal error occurred: failed calling webhook "([^"]*)"')
WOULD_DENY = "would-deny"
_NO_DRY_RUN = re.compile(r'^admission webhook "([^"]*)" does not support dry run')


class Attempt(NamedTuple):
    """A recorded attempt to call a mutating webhook, in the order of attempts. `place` counts all configured webhooks."""

    round: int
    place: int
    configuration: str
    webhook: str
    mutated: bool


class Patch(NamedTuple):
    """A recorded patch that the server applied. An entry of `operations` that is not an object fits no document."""

    round: int
    place: int
    configuration: str
    webhook: str
    operations: list[Any]


@dataclass(frozen=True, slots=True)
class Trace:
    """What one request shows. Names are of webhooks; empty texts mean that no webhook ended the request so."""

    attempts: tuple[Attempt, ...] = ()
    patches: tuple[Patch, ...] = ()
    failed_open: frozenset[tuple[str, str]] = frozenset()  # (phase, webhook)
    prefixes: frozenset[str] = frozenset()  # of the other annotations: webhooks set `WEBHOOK/KEY`
    denied_by: str = ""
    failed: str = ""
    no_dry_run: str = ""
    message: str = ""
    would_deny: Mapping[str, str] = field(default_factory=dict)  # the noted message, by webhook

    def of(self, phase: str, configuration: str, webhook: str) -> str | None:
        """What the record says of one webhook: `denied`, `failed closed`, `failed open`, `would deny`, `called`, or None without a
        trace."""
        attempted = any((each.configuration, each.webhook) == (configuration, webhook) for each in self.attempts)
        # Names of webhooks are unique in a configuration only; the attempts say in which phase the named one is.
        is_mutating = any(each.webhook == webhook for each in self.attempts)
        if is_mutating == (phase == "mutating") and (attempted or phase == "validating"):
            if self.denied_by == webhook:
                return "denied"
            if self.failed == webhook:
                return "failed closed"
        if attempted and self.no_dry_run == webhook:
            return None
        if (phase, webhook) in self.failed_open:
            return "failed open"
        if webhook in self.would_deny and (attempted or (phase == "validating" and not is_mutating)):
            return "would deny"
        if phase == "mutating":
            return "called" if attempted else None
        return "called" if webhook in self.prefixes else None


def trace_of(annotations: Mapping[str, str], message: str) -> Trace:
    """The trace in the annotations and the message of an answer."""
    failed_open = set()
    prefixes = set()
    would_deny = {}
    for key, value in annotations.items():
        if found := _FAILED_OPEN.match(key):
            failed_open.add(("mutating" if found[1] == "mutation" else "validating", value))
        else:
            prefix, _, own = key.partition("/")
            prefixes.add(prefix)
            if own == WOULD_DENY:
                would_deny[prefix] = value
    return Trace(
        attempts=tuple(sorted(_attempts(annotations))),
        patches=tuple(sorted(_patches(annotations), key=lambda patch: patch[:2])),
        failed_open=frozenset(failed_open),
        prefixes=frozenset(prefixes),
        denied_by=_named(_DENIED, message),
        failed=_named(_FAILED, message),
        no_dry_run=_named(_NO_DRY_RUN, message),
        message=message,
        would_deny=would_deny,
    )


def _named(pattern: re.Pattern[str], message: str) -> str:
    found = pattern.match(message)
    return found[1] if found else ""


def _attempts(annotations: Mapping[str, str]) -> Iterator[Attempt]:
    for found, told in _told(_ATTEMPT, annotations):
        if told:
            yield Attempt(*_place(found), *_names(told), told.get("mutated") is True)


def _patches(annotations: Mapping[str, str]) -> Iterator[Patch]:
    for found, told in _told(_PATCH, annotations):
        operations = told.get("patch")
        # No API server writes something else than a list: what such a patch did is not known, and it fits no document.
        yield Patch(*_place(found), *_names(told), operations if isinstance(operations, list) else [None])


def _told(pattern: re.Pattern[str], annotations: Mapping[str, str]) -> Iterator[tuple[re.Match[str], dict[str, Any]]]:
    """The annotations whose keys match, with their values; an empty value for text that is not a JSON object."""
    for key, value in annotations.items():
        if found := pattern.match(key):
            try:
                told = msgspec.json.decode(value)
            except (msgspec.DecodeError, RecursionError):
                told = None
            yield found, told if isinstance(told, dict) else {}


def _place(found: re.Match[str]) -> tuple[int, int]:
    return int(found[1]), int(found[2])


def _names(told: Mapping[str, Any]) -> tuple[str, str]:
    return str(told.get("configuration", "")), str(told.get("webhook", ""))
