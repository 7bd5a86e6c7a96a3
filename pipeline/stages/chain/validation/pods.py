"""Pods and templates. Follows ValidatePodSpec and ValidatePodUpdate of kubernetes pkg/apis/core/validation/validation.go."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from ....cel.library.quantity import compare, is_quantity, parse
from ....request import Object
from ...mutating.frozen import PODS_FORBIDDEN
from .internal import NotKnownError, difference, pod_spec, security_context
from .rule import Refused, Rules, Written, at, fields, go_json, invalid, labels, unsupported

_LISTS: Final = ("initContainers", "containers")
_PORT_MAX: Final = 65535
# Fields of a Pod that an update may change, apart from images. Some of them only to certain values.
_FREE: Final = frozenset({"activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds", "schedulingGates"})


def known_below(path: str) -> tuple[str, ...]:
    """The fields of a Pod's spec that the checks know, below a path."""
    known = ("resources", "resources.*", "ports[].containerPort", "volumeMounts", "volumeMounts[]", "volumeMounts[].*")
    return tuple(f"{path}.{kind}[].{each}" for kind in _LISTS for each in (*known, "securityContext", "securityContext.*"))


def of_spec(written: Written, path: Sequence[str], restart: Sequence[str]) -> Iterator[Refused]:
    """What the spec of a Pod or a template is refused for, where a change brings it about."""
    before, after = (at(each, *path) or {} for each in (written.before, written.after))
    base = ".".join(path)
    volumes = {each.get("name") for each in after.get("volumes") or ()}
    for kind in _LISTS:
        was = {each.get("name"): each for each in before.get(kind) or ()}
        for number, container in enumerate(after.get(kind) or ()):
            yield from _of_container(container, was.get(container.get("name"), {}), volumes, f"{base}.{kind}[{number}]")
    policy = after.get("restartPolicy")
    if policy != before.get("restartPolicy") and policy not in restart:
        yield unsupported(f"{base}.restartPolicy", policy, restart)


def _of_container(container: Object, was: Object, volumes: set[Any], path: str) -> Iterator[Refused]:
    for number, port in enumerate(container.get("ports") or ()):
        value = port.get("containerPort")
        if port not in (was.get("ports") or ()) and isinstance(value, int) and not 0 < value <= _PORT_MAX:
            yield invalid(f"{path}.ports[{number}].containerPort", value, f"must be between 1 and {_PORT_MAX}, inclusive")
    for number, mount in enumerate(container.get("volumeMounts") or ()):
        if mount not in (was.get("volumeMounts") or ()) and mount.get("name") not in volumes:
            yield Refused(f"{path}.volumeMounts[{number}].name", f"Not found: {go_json(mount.get('name'))}")
    if container.get("resources") != was.get("resources"):
        yield from _of_resources(container.get("resources") or {}, f"{path}.resources")
    if container.get("securityContext") != was.get("securityContext"):
        yield from _of_security(container.get("securityContext") or {}, f"{path}.securityContext")


def _of_resources(resources: Object, path: str) -> Iterator[Refused]:
    asked, allowed = (resources.get(name) or {} for name in ("requests", "limits"))
    for name, amount in asked.items():
        limit = allowed.get(name)
        if limit is not None and all(map(is_quantity, (str(amount), str(limit)))) and _exceeds(amount, limit):
            yield invalid(f"{path}.requests", str(amount), f"must be less than or equal to {name} limit of {limit}")


def _exceeds(amount: Any, limit: Any) -> bool:
    return compare(parse(str(amount)), parse(str(limit))) > 0


def _of_security(found: Object, path: str) -> Iterator[Refused]:
    """kubernetes pkg/apis/core/validation/validation.go, ValidateSecurityContext."""
    if found.get("allowPrivilegeEscalation") is not False:
        return
    added = at(found, "capabilities", "add") or ()
    if found.get("privileged"):
        yield _security(path, found, "cannot set `allowPrivilegeEscalation` to false and `privileged` to true")
    if any(each in ("CAP_SYS_ADMIN", "SYS_ADMIN") for each in added):
        yield _security(path, found, "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN")


def _security(path: str, found: Object, why: str) -> Refused:
    try:
        return Refused(path, f"Invalid value: {go_json(security_context(found))}: {why}")
    except NotKnownError:
        return Refused(path, why, is_whole=False)


def _fixed(written: Written) -> Iterator[Refused]:
    """What an update of a Pod may not change; see ValidatePodUpdate."""
    if written.old is None:
        return
    old, before, after = (at(each, "spec") or {} for each in (written.old, written.before, written.after))
    is_gated = bool(old.get("schedulingGates"))
    free = _FREE | ({"nodeSelector", "affinity"} if is_gated else set())
    ends = [
        {name: _without_images(each.get(name)) for name in after.keys() | before.keys() if name not in free}
        for each in (old, before, after)
    ]
    if any(ends[2][name] not in (ends[0][name], ends[1][name]) for name in ends[2]):
        yield _forbidden(old, after, free)


def _forbidden(old: Object, after: Object, free: frozenset[str] | set[str]) -> Refused:
    """The refusal with the difference to the stored Pod, without what an update may change."""
    munged = {name: value for name, value in after.items() if name not in free} | {name: old[name] for name in free if name in old}
    for kind in _LISTS:
        images = {each.get("name"): each.get("image") for each in old.get(kind) or ()}
        if munged.get(kind):
            munged[kind] = [{**each, "image": images.get(each.get("name"), each.get("image"))} for each in munged[kind]]
    try:
        return Refused("spec", f"{PODS_FORBIDDEN}\n{difference(pod_spec(old), pod_spec(munged))}")
    except NotKnownError:
        return Refused("spec", PODS_FORBIDDEN, is_whole=False)


def _without_images(entries: Any) -> Any:
    is_containers = isinstance(entries, list) and all(isinstance(each, dict) and "image" in each for each in entries)
    return [{**each, "image": None} for each in entries] if is_containers else entries


def _of_pod(written: Written) -> Iterator[Refused]:
    yield from labels(written, "metadata", "labels")
    yield from of_spec(written, ("spec",), ("Always", "OnFailure", "Never"))
    yield from _fixed(written)


PODS: Final = Rules(
    fields(
        "metadata.labels[]",
        "metadata.labels.*",
        *known_below("spec"),
        "spec.priority",
        "spec.priorityClassName",
        "spec.preemptionPolicy",
    ),
    (_of_pod,),
)
