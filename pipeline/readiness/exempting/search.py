"""The search for exemptions as set operations over numbered subjects and exclusions.

`exposed` has one row per kind of request that exemptions can tell apart. An exclusion is a key of some of its subjects, so what
it takes out is a join. Python sees only the candidates, their costs, and the distinct sets of candidates.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import duckdb
import pyarrow as pa

from ..counting.bounds import upper_bound
from ..sql import rows_of, statement
from .barred import Barred
from .cover import cheapest_cover
from .exclusions import FLEETING_LABELS, Exclusion, Kind, cost, is_controller, is_of_the_cluster
from .exemptions import Choice, Chosen, Width
from .measures import LaterTrial

# Above this many candidates, exclusions of single objects are left out: a list so long is not kept up to date.
_CANDIDATES_MAX = 1_500
_SINGLE = (Kind.OBJECT, Kind.WORKLOAD)
NOTHING = Barred()
# The exclusions that were picked for a policy, and the would-be denials that no candidate reaches.
_Picked: TypeAlias = tuple[Sequence[Exclusion], int]
# The clusters, and the resources as (API group, resource), of the would-be denials that an exclusion takes out.
Places: TypeAlias = tuple[list[str], list[tuple[str, str]]]


def find_exposed(connection: duckdb.DuckDBPyConnection, names: Collection[str] | None = None) -> None:
    """Make the table `exposed` of the requests in `judged`, and of these policies only, where some are named."""
    connection.execute(statement("exposed"), {"names": None if names is None else sorted(names)})


class Search:
    """The choice of exclusions for the policies of the table `exposed` (see sql/exposed.sql). Its tables stay in the connection.

    The same rows in any order give the same choices.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        for name in ("exposed_subjects", "exposed_groups"):
            connection.execute(statement(name))
        self._name_keys()
        denied = "SELECT DISTINCT policy FROM exposed_groups WHERE outcome = 'deny' ORDER BY ALL"
        self.policies: tuple[str, ...] = tuple(name for (name,) in connection.execute(denied).fetchall())
        self._numbers: Mapping[Exclusion, int] = {}
        self._exposed = self.widths("SELECT policy AS taker, * FROM exposed_groups")

    def _name_keys(self) -> None:
        run = self._connection.execute
        users = run("SELECT user_name FROM exposed_subjects UNION SELECT unnest(user_groups) FROM exposed_subjects").fetchall()
        self._give("cluster_names", {"name": [name for (name,) in users if is_of_the_cluster(name)]})
        self._give("controllers", {"name": [name for (name,) in users if is_controller(name)]})
        texts = [text for (text,) in run("SELECT DISTINCT labels FROM exposed_subjects WHERE labels IS NOT NULL").fetchall()]
        sets = pa.array([_labels(text) for text in texts], pa.list_(pa.string()))
        self._give("label_sets", {"labels": texts, "found": sets})
        run(statement("exclusion_keys"), {"fleeting": sorted(FLEETING_LABELS)})
        run(statement("exclusion_names"))
        run(statement("subject_keys"))
        run("DROP TABLE named_keys")

    def _give(self, name: str, columns: Mapping[str, Any]) -> None:
        """A temporary table from columns; those of Python's lists hold texts."""
        table = pa.table(
            {key: value if isinstance(value, pa.Array) else pa.array(value, pa.string()) for key, value in columns.items()}
        )
        self._connection.register("given", table)
        self._connection.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS FROM given")
        self._connection.unregister("given")

    def bind(self, policy: str, binding: str) -> None:
        """Count the requests of a policy without bindings as those of this binding, which it would get."""
        self._connection.execute(
            "UPDATE exposed_groups SET binding = $binding WHERE policy = $policy AND NOT is_configuration",
            {"policy": policy, "binding": binding},
        )

    def widths_behind(self) -> dict[str, Width]:
        """For each policy the width of what lies behind its exemption. From now on no other would-be denials count."""
        found = self.widths("SELECT policy AS taker, * FROM exposed_groups WHERE is_behind")
        self._connection.execute("DELETE FROM exposed_groups WHERE NOT is_behind AND outcome = 'deny'")
        return found

    def choose_validated(self, barred: Mapping[str, Barred], confidence: float = 0.95) -> dict[str, Choice]:
        """For each policy in `barred`, the exclusions of the earlier half of the time if they leave no denial in the later half.

        Else those of the whole time.
        """
        earlier = self._pick(barred, is_earlier=True)
        self._take(exclusion for exclusions, _ in earlier.values() for exclusion in exclusions)
        later = self._try_later(earlier, confidence)
        fits = {name: picked for name, picked in earlier.items() if not later[name].workloads_denied and not picked[1]}
        found = self._measured(fits)
        found |= self.choose({name: each for name, each in barred.items() if name not in fits})
        return {name: replace(found[name], later=later[name]) for name in barred}

    def choose(self, barred: Mapping[str, Barred]) -> dict[str, Choice]:
        """For each policy in `barred`, the cheapest irredundant exclusions that hide every would-be denial.

        The search leaves out the exclusions that are barred.
        """
        if not barred:
            return {}
        picked = self._pick(barred, is_earlier=False)
        self._take(exclusion for exclusions, _ in picked.values() for exclusion in exclusions)
        return self._measured(picked)

    def minus(self, choice: Choice, item: Chosen) -> Choice:
        """A choice without one of its exclusions."""
        kept = tuple(each for each in choice.chosen if each != item)
        self._take(each.exclusion for each in kept)
        return replace(choice, chosen=kept, width=self.widths("SELECT policy AS taker, * FROM taken").get(choice.policy, Width()))

    def places(self, exclusions: Iterable[Exclusion]) -> dict[Exclusion, Places]:
        """The clusters and resources of the would-be denials that each of these takes out."""
        self._take(exclusions)
        found = {row["candidate"]: (row["clusters"], row["resources"]) for row in rows_of(self._connection, "taken_places")}
        return {exclusion: found.get(number, ([], [])) for exclusion, number in self._numbers.items()}

    def widths(self, taken_by: str) -> dict[Any, Width]:
        """The width of each `taker` of a query: its rows are (taker, group of requests)."""
        columns = "taker, id, outcome, workload, requests"
        self._connection.execute(f"CREATE OR REPLACE TEMP TABLE taken_by AS SELECT DISTINCT {columns} FROM ({taken_by})")
        return {row.pop("taker"): Width(**row) for row in rows_of(self._connection, "widths")}

    def _take(self, exclusions: Iterable[Exclusion]) -> None:
        """Make `candidates` and `taken` of these exclusions, with their numbers."""
        given = list(exclusions)
        self._numbers = {exclusion: number for number, exclusion in enumerate(given)}
        columns = {
            "candidate": pa.array(range(len(given)), pa.int64()),
            "policy": [each.policy for each in given],
            "binding": [each.binding for each in given],
            "kind": [each.kind.value for each in given],
            "value": [each.subject for each in given],
            "api_group": [each.resource[0] for each in given],
            "resource": [each.resource[1] for each in given],
            "namespace": [each.namespace for each in given],
        }
        self._give("given_exclusions", columns)
        self._connection.execute(statement("candidates_given"))
        self._connection.execute(statement("taken"))

    def _pick(self, barred: Mapping[str, Barred], *, is_earlier: bool) -> dict[str, _Picked]:
        """What the cover picks for each policy: in the earlier half of the time, or in all of it."""
        names, half = {"names": sorted(barred)}, {"earlier": is_earlier}
        rows = [(name, *each) for name, bar in barred.items() for each in _bars(bar)]
        self._give("barred", {key: [row[at] for row in rows] for at, key in enumerate(("policy", "kind", "label"))})
        self._connection.execute(statement("candidates"), names | half)
        self._connection.execute(statement("taken"))
        candidates = self._usable(half)
        numbers = [number for found in candidates.values() for number, _, _ in found]
        self._give("usable", {"candidate": pa.array(numbers, pa.int64())})
        things: defaultdict[str, list[list[int]]] = defaultdict(list)
        for row in rows_of(self._connection, "candidate_things", half):
            things[row["policy"]].append(row["holders"])
        left = {row["policy"]: row["requests"] for row in rows_of(self._connection, "unreached", names | half)}
        return {name: (_covered(candidates.get(name, []), things[name]), left.get(name, 0)) for name in barred}

    def _usable(self, half: Mapping[str, bool]) -> dict[str, list[tuple[int, Exclusion, int]]]:
        """For each policy its candidates in the order of preference, each with its number and its cost."""
        found: defaultdict[str, list[tuple[int, Exclusion, int]]] = defaultdict(list)
        for row in rows_of(self._connection, "candidate_costs", dict(half)):
            place = (row["api_group"], row["resource"])
            exclusion = Exclusion(row["policy"], row["binding"], Kind(row["kind"]), row["value"], place, row["namespace"])
            found[exclusion.policy].append((row["candidate"], exclusion, cost(exclusion, row["passing"], row["unknown"])))
        for name, each in found.items():
            each.sort(key=lambda candidate: candidate[1].order)
            if len(each) > _CANDIDATES_MAX:
                found[name] = [candidate for candidate in each if candidate[1].kind not in _SINGLE]
        return found

    def _try_later(self, picked: Mapping[str, _Picked], confidence: float) -> dict[str, LaterTrial]:
        """The exclusions in `taken`, tried on the later half of the time. A workload is new there if it was not matched before."""
        rows = {row.pop("policy"): row for row in rows_of(self._connection, "later_trial", {"names": sorted(picked)})}
        return {
            name: LaterTrial(
                exemptions=len(exclusions),
                new_rate_upper=upper_bound(rows[name]["new_workloads_denied"], rows[name]["new_workloads"], confidence),
                **rows[name],
            )
            for name, (exclusions, _) in picked.items()
        }

    def _measured(self, picked: Mapping[str, _Picked]) -> dict[str, Choice]:
        """The choices with their widths, from the exclusions in `taken`."""
        alone = self.widths("SELECT candidate AS taker, * FROM taken")
        together = self.widths("SELECT policy AS taker, * FROM taken")
        return {
            name: Choice(
                name,
                tuple(Chosen(exclusion, alone[self._numbers[exclusion]]) for exclusion in exclusions),
                left,
                together.get(name, Width()),
                self._exposed[name],
            )
            for name, (exclusions, left) in picked.items()
        }


def _covered(candidates: Sequence[tuple[int, Exclusion, int]], things: Iterable[Iterable[int]]) -> list[Exclusion]:
    """The exclusions that the cheapest cover of all things picks."""
    place = {number: index for index, (number, _, _) in enumerate(candidates)}
    sets = [frozenset(place[number] for number in holders) for holders in things]
    return [candidates[index][1] for index in cheapest_cover([cost for _, _, cost in candidates], sets)]


def _bars(barred: Barred) -> list[tuple[str, str | None]]:
    """The rows of a bar: (kind, label), where no label bars the whole kind."""
    labels = [None] if barred.labels is None else sorted(barred.labels)
    return [*((kind.value, None) for kind in sorted(barred.kinds)), *((Kind.LABEL.value, label) for label in labels)]


def _labels(text: str) -> list[str]:
    """The labels of an object as `key=value`; nothing where they are not valid labels of Kubernetes."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return []
    return [f"{key}={value}" for key, value in found.items()] if isinstance(found, dict) else []
