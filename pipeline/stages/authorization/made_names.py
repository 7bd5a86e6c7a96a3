"""Names that a server, a controller or a script made: a rule that holds such a name is of no use for the next object.

The log is the evidence: `metadata.generateName`, a controlling owner whose name the object carries with a hash or a time, creates
without a name, and families of names that differ by a number. Only where the log has no body, the form of a name decides, and only
forms that servers make (kubernetes/apiserver pkg/storage/names/generate.go, apimachinery pkg/util/rand/rand.go).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from queries import LakeReader

from ...cel.library.authorizer import Attributes
from .sql import statement

GENERATED = "generateName made it"
OWNED = "a controller made it from its owner's name"
UID = "it has a uid in it"
FORMED = "the log has no body of it, and servers make names of this form"
NUMBERED = "objects of this name with other numbers were created, and it was used for a short time"
# A family of so many names, and a use that is shorter than this share of the user's time.
_FAMILY_MIN = 3
_SHORT = 0.25
_VERBS = frozenset({"get", "list", "watch", "create", "update", "patch", "delete"})
# Names in these are rights of their own, or give access to credentials: a number in a name is not enough to open all of them.
_GUARDED = frozenset({("", "secrets"), ("", "serviceaccounts"), ("", "namespaces"), ("", "nodes")})
_RBAC = "rbac.authorization.k8s.io"
# The letters of generated suffixes and hashes.
_SAFE = "[bcdfghjklmnpqrstvwxz2456789]"
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_MADE = re.compile(rf"{_SAFE}{{4,10}}|[0-9]{{5,}}|[0-9a-f]{{8,}}")
_POD = re.compile(rf".+-{_SAFE}{{6,10}}-{_SAFE}{{5}}")
_SUFFIXED = re.compile(rf".+-{_SAFE}{{5}}")
_HASHED = re.compile(rf".+-(?={_SAFE}*[24-9]){_SAFE}{{8,10}}")
_EVENT = re.compile(r".+\.[0-9a-f]{16}")
_TIMED = re.compile(r".+-[0-9]{8,}")
# Owners that give names which come again.
_LASTING = frozenset({"StatefulSet", "Node"})


class Used(NamedTuple):
    """One use of a right: the question, and when it was asked first and last."""

    asked: Attributes
    first_ts: datetime
    last_ts: datetime


def made_names(reader: LakeReader, used: Iterable[Used], cluster: str, until: datetime | None = None) -> Mapping[Attributes, str]:
    """The questions whose names were made, each with what shows it; `until` hides what the log shows later."""
    every = [each for each in used if each.asked.name and each.asked.verb in _VERBS and each.asked.resource]
    if not every:
        return {}
    resources = sorted({f"{each.asked.group}/{each.asked.resource}" for each in every})
    names = sorted({each.asked.name for each in every})
    parameters = {"cluster": cluster, "resources": resources, "until": until}
    rows = _rows(reader, "made_names", {**parameters, "names": names})
    shown = {(row["api_group"], row["resource"], row["namespace"], row["name"]): row for row in rows}
    families = {(row["api_group"], row["resource"], row["stem"]): row["names"] for row in _rows(reader, "families", parameters)}
    lasting = _lasting(every)
    found = {}
    for asked in {each.asked for each in every}:
        place = (asked.group, asked.resource, asked.namespace, asked.name)
        reason = _reason(asked, shown.get(place), families)
        if not reason and place not in lasting and _is_numbered(asked, families):
            reason = NUMBERED
        if reason:
            found[asked] = reason
    return found


def _rows(reader: LakeReader, name: str, parameters: Mapping[str, Any]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = reader.sql(statement(name), dict(parameters)).to_arrow_table().to_pylist()
    return rows


def _reason(asked: Attributes, shown: Mapping[str, Any] | None, families: Mapping[tuple[str, str, str], int]) -> str:
    """What shows that a name was made; empty if nothing does."""
    name = asked.name
    if (asked.group, asked.resource) == ("", "namespaces"):
        return ""  # a rule for every Namespace is one for all that is in them
    if _UUID.search(name):
        return UID
    if shown is not None and shown["owner_kind"] in _LASTING:
        return ""
    if shown is not None and (shown["is_nameless"] or (shown["generate_name"] and name.startswith(shown["generate_name"]))):
        return GENERATED
    if shown is not None and shown["owner_name"] and _is_made_of(name, shown["owner_name"], shown["template_hash"]):
        return OWNED
    is_told = shown is not None and (shown["is_created"] or shown["generate_name"] is not None or shown["owner_name"] is not None)
    return "" if is_told else _formed(asked, families)


def _is_made_of(name: str, owner: str, template_hash: str | None) -> bool:
    """Whether a name is the owner's with a hash, a time or a random suffix."""
    suffix = name.removeprefix(f"{owner}-")
    return suffix != name and (suffix == template_hash or bool(_MADE.fullmatch(suffix)))


def _formed(asked: Attributes, families: Mapping[tuple[str, str, str], int]) -> str:
    """By the form alone. A random suffix counts where creates without a name are recorded for the resource."""
    name, resource = asked.name, (asked.group, asked.resource)
    is_made = (
        (resource == ("", "pods") and _POD.fullmatch(name))
        or (resource in (("apps", "replicasets"), ("apps", "controllerrevisions")) and _HASHED.fullmatch(name))
        or (resource == ("batch", "jobs") and _TIMED.fullmatch(name))
        or (asked.resource == "events" and _EVENT.fullmatch(name))
        or (families.get((*resource, "")) and _SUFFIXED.fullmatch(name))
    )
    return FORMED if is_made else ""


def _is_numbered(asked: Attributes, families: Mapping[tuple[str, str, str], int]) -> bool:
    resource = (asked.group, asked.resource)
    if resource in _GUARDED or asked.group == _RBAC:
        return False
    return families.get((*resource, re.sub("[0-9]+", "#", asked.name)), 0) >= _FAMILY_MIN


def _lasting(used: Iterable[Used]) -> set[tuple[str, str, str, str]]:
    """The objects that the user used for a good part of its own time."""
    spans: dict[tuple[str, str, str, str], tuple[datetime, datetime]] = {}
    for asked, first, last in used:
        place = (asked.group, asked.resource, asked.namespace, asked.name)
        before = spans.get(place, (first, last))
        spans[place] = min(before[0], first), max(before[1], last)
    whole = max(last for _, last in spans.values()) - min(first for first, _ in spans.values())
    return {place for place, (first, last) in spans.items() if last - first > whole * _SHORT}
