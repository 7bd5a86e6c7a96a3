"""The parts of a Pod, or of a template, that the checks read, and the words that their texts share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

Json: TypeAlias = Mapping[str, Any]


class Failure(NamedTuple):
    """Why a Pod fails a check: the reason, and the detail that names what sets which field."""

    reason: str
    detail: str

    def __str__(self) -> str:
        return f"{self.reason} ({self.detail})"


Rule: TypeAlias = Callable[["Pod"], Failure | None]


class Part(NamedTuple):
    """A container of a Pod, or the Pod itself without a name, by what its security context says."""

    name: str
    security: Json
    container: Json

    def field(self, *path: str) -> Any:
        """A field of the security context; None where it, or what it is in, is absent."""
        return field_of(self.security, *path)


@dataclass(frozen=True)
class Pod:
    """The metadata and the spec that the checks read. Absent fields and nulls are alike."""

    annotations: Mapping[str, str]
    spec: Json
    # What fails, by the checks that were asked: see table.py.
    known: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def containers(self) -> Sequence[Part]:
        """All containers, in the order in which the checks visit them."""
        kinds = ("initContainers", "containers", "ephemeralContainers")
        found = (each for kind in kinds for each in self.spec.get(kind) or ())
        return [Part(each.get("name") or "", each.get("securityContext") or {}, each) for each in found]

    @cached_property
    def itself(self) -> Part:
        """The Pod's own security context."""
        return Part("", self.spec.get("securityContext") or {}, self.spec)

    @property
    def volumes(self) -> Sequence[Json]:
        """The volumes of the Pod."""
        return self.spec.get("volumes") or ()

    @property
    def is_windows(self) -> bool:
        """Whether the Pod says that it runs on Windows."""
        return bool(field_of(self.spec, "os", "name") == "windows")

    @property
    def has_user_namespace(self) -> bool:
        """Whether the Pod has a user namespace of its own."""
        return self.spec.get("hostUsers") is False

    def where(self, is_bad: Callable[[Part], bool]) -> list[str]:
        """The names of the containers with a property."""
        return [each.name for each in self.containers if is_bad(each)]

    def setters(self, is_bad: Callable[[Part], bool]) -> list[str]:
        """What of the Pod and its containers has a property, as texts name it."""
        found = self.where(is_bad)
        return [*(["pod"] if is_bad(self.itself) else []), *([containers(found)] if found else [])]

    def values(self, *path: str) -> list[str]:
        """The values of a field of the security contexts of the Pod and its containers, each once and sorted."""
        found = (each.field(*path) for each in (self.itself, *self.containers))
        return ordered(each for each in found if each is not None)


def field_of(value: Json, *path: str) -> Any:
    """What lies at a path; None where it, or what it is in, is absent."""
    found: Any = value
    for name in path:
        found = found.get(name) if found else None
    return found


def plural(one: str, many: str, count: int) -> str:
    """The word that fits a count."""
    return one if count == 1 else many


def listed(values: Iterable[str]) -> str:
    """Values in quotes, without escaping."""
    return '"' + '", "'.join(values) + '"'


def named(one: str, names: Sequence[str]) -> str:
    """Things by their names: `volume "a"`, `volumes "a", "b"`."""
    return f"{plural(one, one + 's', len(names))} {listed(names)}"


def containers(names: Sequence[str]) -> str:
    """Containers by their names."""
    return named("container", names)


def ordered(values: Iterable[str]) -> list[str]:
    """Values sorted as Go sorts strings, each once."""
    return sorted(set(values), key=lambda each: each.encode("utf-8", "surrogatepass"))
