"""The recorded patches of webhooks, which come after the policies of each round."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ...history.patching import PatchError, apply_operations
from ...request import Evidence, Object, Unknown
from ..schema.pruning import drop_nulls, prune, set_defaults
from ..webhooks.trace import Patch, trace_of
from .chain import Between
from .nil_lists import as_json, copied
from .walk import Met


def recorded_between(met: Met, entered: Evidence[Object | None]) -> tuple[Between | None, Evidence[Object | None]]:
    """What webhooks did between rounds, and the object as it would have left them without any policy.

    A webhook is taken to answer as it did. Patches that do not fit the entered object are left out, where built-in plugins may have
    changed the object before: then nothing is known of them.
    """
    patches = trace_of(met.event.annotations, "").patches
    if not patches or isinstance(entered, Unknown) or entered.value is None:
        return None, entered
    without = _patched(entered.value, patches)
    if isinstance(without, Unknown):
        return None, entered
    return lambda number, value: _patched(value, [each for each in patches if each.round == number]), replace(
        entered, value=without
    )


def _patched(value: Object, patches: Sequence[Patch]) -> Object | Unknown:
    value = as_json(value) if patches else value
    for patch in patches:
        try:
            value = apply_operations(value, patch.operations)
        except PatchError as problem:
            return Unknown(f"a recorded patch of webhook {patch.webhook} does not fit: {problem}")
    return value


def as_stored(met: Met) -> Callable[[Object], Object]:
    """A function that drops and defaults as the store does.

    It drops fields without a schema, nulls that no schema allows, and a status that the write may not set.
    """
    kind = met.kind
    if isinstance(kind, Unknown) or kind.custom is None:
        return lambda value: value
    custom = kind.custom
    drops_status = custom.has_status and met.event.subresource != "status"

    def stored(value: Object) -> Object:
        found: Object = copied(as_json(value))
        prune(found, custom.schema)
        drop_nulls(found, custom.schema)
        set_defaults(found, custom.schema)
        if drops_status:
            found.pop("status", None)
        return found

    return stored
