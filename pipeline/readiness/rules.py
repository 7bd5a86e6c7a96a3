"""The rules that turn figures into a verdict: few, and each one configurable."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Self

from ingest.errors import InputError
from ingest.extent import yaml_values

_MAX = 1_000_000_000
_WITHIN_ONE = frozenset({"confidence", "trend_p_max"})


@dataclass(frozen=True, slots=True)
class ReadinessRules:
    """The conditions that must hold before a policy may deny. A file given with `--rules` overrides single values.

    Enough evidence:

    matched_units_min: independent units (root owners) whose requests the policy matched and that could be judged.
    days_min: days between the first and the last matched request, as a span of traffic.
    weekdays_min: distinct UTC weekdays with a judged request.
    release_cycles_min: steps from one release of a unit to its next; 0 by default, because many kinds of objects never change.
    unknown_share_max: share of matched requests without a verdict.
    agreement_min: share of recorded outcomes on this policy's resources, and of this policy itself, that the replay reproduces.

    Nothing in the way:

    denied_units_max: units that may still be denied.
    critical_denied_max: requests of critical subjects that may be denied; these are never excused by `denied_units_max`.
    latent_denied_max: objects and pod templates that exist, were not tried in the window, and would be denied.

    Limits on exemptions for READY WITH EXEMPTIONS:

    exemptions_max: exemptions of one policy.
    exempted_units_share_max: share of the units that pass, and that the exemptions exempt too.
    later_units_min: units judged in the later half of the time. Exemptions are looked for in the earlier half, tried on the later.
    later_denied_units_max: units of the later half that would be denied although those exemptions are applied. New names every day
        break this rule: exemptions found in the earlier half do not fit them.

    A figure goes with these two: the chance that a new workload of the next period is denied in spite of the exemptions. Its
    bound (Clopper-Pearson, one-sided, at `confidence`) counts the root owners that the policy first matched in the later half. It
    assumes that those of the next period are like them. Without any such owner the chance is unknown (100 %).

    How figures are computed:

    confidence: of the one-sided upper bounds on the rates of denied units and users.
    trend_p_max: below this p-value of Fisher's exact test the rate of denied units is said to rise or to fall.

    Who is who:

    break_glass_users, break_glass_groups: those who must always get through.
    system_namespaces: namespaces of the cluster itself.
    sink_namespaces: where our own sink runs; its traffic must never be denied.
    team_labels: labels and annotations that name a team, the surest first; they are looked for on the object, its owners and its
        namespace.
    gitops_users: further user names of GitOps tools, in addition to those that are known by their service account or user agent.
    """

    matched_units_min: int = 20
    days_min: float = 7.0
    weekdays_min: int = 5
    release_cycles_min: int = 0
    unknown_share_max: float = 0.05
    agreement_min: float = 0.99
    denied_units_max: int = 0
    critical_denied_max: int = 0
    latent_denied_max: int = 0
    exemptions_max: int = 10
    exempted_units_share_max: float = 0.05
    later_units_min: int = 10
    later_denied_units_max: int = 0
    confidence: float = 0.95
    trend_p_max: float = 0.05
    break_glass_users: tuple[str, ...] = ()
    break_glass_groups: tuple[str, ...] = ("system:masters",)
    system_namespaces: tuple[str, ...] = ("kube-system", "kube-public", "kube-node-lease")
    sink_namespaces: tuple[str, ...] = ("hindcast",)
    team_labels: tuple[str, ...] = (
        "team",
        "owner",
        "app.kubernetes.io/team",
        "app.kubernetes.io/owner",
        "app.kubernetes.io/part-of",
    )
    gitops_users: tuple[str, ...] = ()

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a YAML or JSON mapping of rule names to numbers, or to lists of names.

        Raises InputError naming the file and the rule when a name is not known or a value does not fit the rule.
        """
        try:
            documents = yaml_values(path.read_bytes(), str(path))
        except OSError as error:
            raise InputError(f"{path}: cannot read readiness rules: {error}") from error
        given = documents[0] if documents else None
        if not isinstance(given, dict):
            raise InputError(f"{path}: found {type(given).__name__}, wanted a mapping of rule names to numbers")
        return cls.of(given, str(path))

    @classmethod
    def of(cls, given: Mapping[str, Any], source: str) -> Self:
        """The defaults with these values. Raises InputError naming the source and the rule, as `load` does."""
        defaults = {entry.name: entry.default for entry in fields(cls)}
        values: dict[str, Any] = {}
        for name, value in given.items():
            if name not in defaults:
                raise InputError(f"{source}: no readiness rule is named {name!r}", f"the rules are {', '.join(sorted(defaults))}")
            values[name] = _read(f"{source}: rule {name} is {value!r}"[:200], value, defaults[name], name)
        return cls(**values)

    @classmethod
    def written(cls, given: Iterable[str], source: str) -> Self:
        """The defaults with some numbers replaced, each written `NAME=NUMBER`. Raises InputError, as `of` does."""
        values: dict[str, Any] = {}
        for text in given:
            name, _, number = text.partition("=")
            if not isinstance(getattr(cls(), name[:60], None), (int, float)):
                raise InputError(
                    f"{source}: no number among the rules is named {ascii(name)[:60]}", f"write one as {source}=days_min=3"
                )
            try:
                values[name] = float(number)
            except ValueError:
                raise InputError(f"{source}: {name} is {ascii(number)[:60]}, wanted a number", f"such as {name}=1") from None
        return cls.of(values, source)


def _read(found: str, value: object, default: object, name: str) -> object:
    """A value that fits a rule. `found` begins the sentence on one that does not."""
    if isinstance(default, tuple):
        if not isinstance(value, (list, tuple)) or not all(isinstance(entry, str) for entry in value):
            raise InputError(f"{found}, wanted a list of names")
        return tuple(value)
    # Not a number is not equal to itself.
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value:
        raise InputError(f"{found}, wanted a number")
    if name in _WITHIN_ONE and not 0 < value < 1:
        raise InputError(f"{found}, out of range: wanted a number between 0 and 1")
    if not 0 <= value <= _MAX:
        raise InputError(f"{found}, out of range: wanted a number from 0 to {_MAX:,}")
    if isinstance(default, int) and value != int(value):
        raise InputError(f"{found}, wanted a whole number")
    return int(value) if isinstance(default, int) else value
