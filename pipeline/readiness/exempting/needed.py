"""Which exemptions are needed, by one replay of all of them: without a needless one, no more requests are denied.

A probe is a policy that denies what an exclusion takes out, and no request that it spares. So one replay says of each would-be
denial which exclusions take it out, and an exclusion is needed if it alone takes one out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from ...matching.namespaces import NAME_LABEL
from ...request import Object
from ...stages.validating.decode import BINDING, POLICY
from ..sql import rows_of
from .exclusions import Exclusion
from .exemptions import Choice, Chosen
from .manifests import Key, Manifests, new_binding


class Probes:
    """The probes of some choices, and which exclusion each denial of theirs stands for."""

    def __init__(self, manifests: Manifests, choices: Iterable[Choice]) -> None:
        self.objects: dict[Key, Object] = {}
        self._rows: list[tuple[str, str, str, str, int | None, int]] = []
        self._manifests = manifests
        self._choices = {choice.policy: choice for choice in choices if len(choice.chosen) > 1}
        for number, choice in enumerate(self._choices.values()):
            self._add(choice, f"probe-{number}.hindcast")

    @property
    def names(self) -> frozenset[str]:
        """The names of the probes."""
        return frozenset(name for kind, name in self.objects if kind == POLICY)

    def _add(self, choice: Choice, name: str) -> None:
        items = list(enumerate(choice.chosen))
        own = self._manifests.bindings_of(choice.policy)
        bound = {binding: self._manifests.objects[BINDING, binding] for binding in own}
        # A policy without bindings gets one with the first exclusion of a namespace, and counts as bound everywhere.
        bound = bound or {"": new_binding(choice.policy, "")}
        conditions = [(index, item.exclusion) for index, item in items if item.exclusion.binding is None]
        if conditions:
            self._policy(choice.policy, name, [exclusion.expression for _, exclusion in conditions])
            for place, (binding, obj) in enumerate(bound.items()):
                self._bind(name, f"{place}.{name}", obj)
                for at, (index, _) in enumerate(conditions):
                    self._rows.append((name, f"{place}.{name}", choice.policy, binding, at, index))
        namespaces = [(index, item.exclusion) for index, item in items if item.exclusion.binding is not None]
        if namespaces:
            self._policy(choice.policy, f"in-{name}", ["false"])
        for index, exclusion in namespaces:
            binding = str(exclusion.binding) if own else ""
            self._bind(f"in-{name}", f"{index}.in-{name}", bound[binding], exclusion)
            self._rows.append((f"in-{name}", f"{index}.in-{name}", choice.policy, binding, None, index))

    def _policy(self, policy: str, name: str, expressions: Sequence[str]) -> None:
        obj = self._manifests.objects[POLICY, policy]
        kept = {field: obj["spec"][field] for field in ("matchConstraints",) if field in obj["spec"]}
        spec = {**kept, "failurePolicy": "Fail", "validations": [{"expression": each} for each in expressions]}
        self.objects[POLICY, name] = {**obj, "metadata": {"name": name}, "spec": spec}

    def _bind(self, policy: str, name: str, binding: Object, exclusion: Exclusion | None = None) -> None:
        around: dict[str, Any] = dict(binding["spec"].get("matchResources") or {})
        if exclusion is not None:
            selector = dict(around.get("namespaceSelector") or {})
            inside = {"key": NAME_LABEL, "operator": "In", "values": [exclusion.subject]}
            around["namespaceSelector"] = {**selector, "matchExpressions": [*(selector.get("matchExpressions") or ()), inside]}
        spec = {"policyName": policy, "validationActions": ["Deny"], **({"matchResources": around} if around else {})}
        self.objects[BINDING, name] = {**new_binding(policy, name), "spec": spec}

    def needless(self, connection: duckdb.DuckDBPyConnection, verdicts: Path, probed: Path) -> Iterator[tuple[str, list[Chosen]]]:
        """For each policy its needless exclusions, in the order in which they go; each goes only if those before it went.

        `verdicts` are those of the run, `probed` those of the probes. `still_denied` has the denials that all exclusions leave.
        """
        columns = ("probe", "probe_binding", "policy", "binding", "expression_index", "item")
        values = zip(*self._rows, strict=True)
        types = (*([pa.string()] * 4), pa.int32(), pa.int32())
        table = pa.table({name: pa.array(each, kind) for name, each, kind in zip(columns, values, types, strict=True)})
        connection.register("probes", table)
        try:
            rows = rows_of(connection, "taken_by_probes", {"verdicts": str(verdicts), "probed": str(probed)})
        finally:
            connection.unregister("probes")
        taken: dict[str, list[set[int]]] = {name: [] for name in self._choices}
        for row in rows:
            taken[row["policy"]].append(set(row["items"]))
        for name, sets in taken.items():
            chosen = self._choices[name].chosen
            yield name, [chosen[index] for index in _needless([item.width.passing_units for item in chosen], sets)]


def _needless(passing: Sequence[int], taken: Sequence[set[int]]) -> Iterator[int]:
    """The items that no set needs, one after the other: of those that could go, the one with the most passing workloads goes.

    One item stays in any case.
    """
    left = list(range(len(passing)))
    for _ in passing[1:]:
        needed = {item for each in taken if len(each) == 1 for item in each}
        left = [item for item in left if item not in needed]
        if not left:
            return
        dearest = max(reversed(left), key=lambda item: passing[item])
        yield dearest
        left.remove(dearest)
        for each in taken:
            each.discard(dearest)
