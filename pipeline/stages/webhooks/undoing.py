"""An object without the changes of one webhook.

The body with all recorded patches, and the body without those of the webhook, differ in what the webhook changed. These places are
undone in the object that validating admission saw, which also has what defaults and plugins made of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ...history.json_values import json_equal
from ...history.patching import PatchError, apply_operations
from ...request import Evidence, Known, Object, Unknown
from .trace import Attempt, Patch, Trace

_ABSENT = object()


class Undone(NamedTuple):
    """The object without the changes. `asked` names the mutating webhooks that looked at the object with them."""

    object: Known[Object]
    asked: tuple[str, ...]


def undo(trace: Trace, webhook: str, configuration: str | None, start: Evidence[Object | None], seen: Object) -> Undone | Unknown:
    """Take the changes of a webhook out of an object.

    `start` is the object before the first webhook, `seen` the one that validating admission saw. The patches of the other webhooks
    stay, as if these had answered the same.
    """
    if isinstance(start, Unknown) or start.value is None:
        return Unknown(f"the object before the webhook: {start.reason if isinstance(start, Unknown) else 'it is not there'}")

    def is_own(each: Attempt | Patch) -> bool:
        return each.webhook == webhook and configuration in (None, each.configuration)

    patched = {each[:2] for each in trace.patches}
    if any(each.mutated and each[:2] not in patched for each in trace.attempts):
        return Unknown("patches of webhooks were not recorded: the audit level was Metadata")
    own = [each for each in trace.attempts if is_own(each) and each.mutated]
    if not own:
        return Unknown("the log does not show the change")
    asked = _asked_about_it(trace.attempts, own[0], is_own=[is_own(each) for each in trace.attempts])
    try:
        whole = _patched(start.value, trace.patches)
    except PatchError as error:
        return Unknown(f"the recorded patches do not fit the recorded body: {error}")
    try:
        # Nothing else began the second round, so that it would not have been.
        rounds = 2 if own[0].round or _others_changed(trace.attempts, own) else 1
        rest = [each for each in trace.patches if not is_own(each) and each.round < rounds]
        without = _patched(start.value, rest)
        merged = _undone(seen, whole, without)
    except PatchError as error:
        return Unknown(f"the recorded patches do not fit without those of the webhook: {error}")
    except _OtherwiseError as error:
        return Unknown(f"something else than recorded patches changed what the webhook changed: {error}")
    if not isinstance(merged, dict):
        return Unknown("without its patches there is no object")
    return Undone(Known(merged, "the judged object without the patches of the webhook", start.grade), asked)


class _OtherwiseError(Exception):
    """A place is not as the recorded patches left it."""


def _others_changed(attempts: Sequence[Attempt], own: Sequence[Attempt]) -> bool:
    return any(each.mutated and each.round == 0 and each not in own for each in attempts)


def _asked_about_it(attempts: Sequence[Attempt], first: Attempt, is_own: Sequence[bool]) -> tuple[str, ...]:
    """The other webhooks that were called after the first change, and would be without it."""
    others_changed = any(each.mutated and each.round == 0 and not own for each, own in zip(attempts, is_own, strict=True))
    names = [
        each.webhook
        for each, own in zip(attempts, is_own, strict=True)
        if not own and each[:2] > first[:2] and (each.round == first.round or others_changed)
    ]
    return tuple(dict.fromkeys(names))


def _patched(value: Any, patches: Sequence[Patch]) -> Any:
    for patch in patches:
        value = apply_operations(value, patch.operations)
    return value


def _undone(seen: Any, whole: Any, without: Any, path: str = "") -> Any:
    """`seen`, with `without` wherever it differs from `whole`. Raises _OtherwiseError where `seen` is not as `whole` there."""
    if json_equal(whole, without):
        return seen
    if json_equal(seen, whole):
        return without
    if isinstance(seen, dict) and isinstance(whole, dict) and isinstance(without, dict):
        found = dict(seen)
        for key in dict.fromkeys((*whole, *without)):
            own, other, third = (each.get(key, _ABSENT) for each in (seen, whole, without))
            if not json_equal(other, third):
                made = _undone(own, other, third, f"{path}.{key}".lstrip("."))
                found.pop(key, None)
                if made is not _ABSENT:
                    found[key] = made
        return found
    if isinstance(seen, list) and isinstance(whole, list) and isinstance(without, list):
        if len(seen) == len(whole) == len(without):
            entries = enumerate(zip(seen, whole, without, strict=True))
            return [_undone(own, other, third, f"{path}[{at}]") for at, (own, other, third) in entries]
        return _undone_list(seen, whole, without, path)
    if isinstance(seen, dict) and isinstance(whole, dict) and without is _ABSENT and _holds(seen, whole):
        return _ABSENT
    raise _OtherwiseError(path or "the object")


def _undone_list(seen: list[Any], whole: list[Any], without: list[Any], path: str) -> list[Any]:
    """A list to which the webhook added entries at the end; defaults may have filled the entries."""
    if len(seen) != len(whole) or not json_equal(whole[: len(without)], without):
        raise _OtherwiseError(path)
    return seen[: len(without)]


def _holds(seen: Any, whole: Any) -> bool:
    """Whether an added object was only filled with defaults afterwards."""
    if isinstance(seen, dict) and isinstance(whole, dict):
        return all(key in seen and _holds(seen[key], part) for key, part in whole.items())
    if isinstance(seen, list) and isinstance(whole, list):
        return len(seen) == len(whole) and all(map(_holds, seen, whole))
    return json_equal(seen, whole)
