"""Pods and templates. Follows ValidatePodSpec and ValidatePodUpdate of kubernetes pkg/apis/core/validation/validation.go."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from ....cel.library.quantity import compare, is_quantity, parse
from ....request import Object
from ...mutating.frozen import PODS_FORBIDDEN
from .rule import Refused, Rules, Written, at, fields, go_json, invalid, labels, unsupported

_LISTS: Final = ("initContainers", "containers")
_PORT_MAX: Final = 65535
_SECURITY: Final = (
    "Capabilities", "Privileged", "SELinuxOptions", "WindowsOptions", "RunAsUser", "RunAsGroup", "RunAsNonRoot",
    "ReadOnlyRootFilesystem", "AllowPrivilegeEscalation", "ProcMount", "SeccompProfile", "AppArmorProfile",
)  # fmt: skip
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
    value = _as_go(found)
    if found.get("privileged"):
        yield _security(path, value, "cannot set `allowPrivilegeEscalation` to false and `privileged` to true")
    if any(each in ("CAP_SYS_ADMIN", "SYS_ADMIN") for each in added):
        yield _security(path, value, "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN")


def _security(path: str, value: dict[str, Any] | None, why: str) -> Refused:
    shown = f"Invalid value: {go_json(value)}: {why}" if value is not None else why
    return Refused(path, shown, is_whole=value is not None)


def _as_go(found: Object) -> dict[str, Any] | None:
    """The internal form of a security context; None where a part of it is not known here."""
    own = {f"{name[0].lower()}{name[1:]}": name for name in _SECURITY}
    own["seLinuxOptions"] = own.pop("sELinuxOptions")
    if set(found) - set(own) or any(
        found.get(name) for name in ("seLinuxOptions", "windowsOptions", "seccompProfile", "appArmorProfile")
    ):
        return None
    values = {go: found.get(name) for name, go in own.items()}
    capabilities = found.get("capabilities")
    if capabilities is not None:
        values["Capabilities"] = {"Add": capabilities.get("add"), "Drop": capabilities.get("drop")}
    return {name: values[name] for name in _SECURITY}


def is_fixed(written: Written) -> bool:
    """Whether a change sets a field of an older Pod that no update may change."""
    if written.old is None:
        return False
    old, before, after = (at(each, "spec") or {} for each in (written.old, written.before, written.after))
    for name in after.keys() | before.keys():
        ends = [_without_images(each.get(name)) if name in _LISTS else each.get(name) for each in (old, before, after)]
        if (
            ends[2] not in ends[:2]
            and name not in _FREE
            and not (name in ("nodeSelector", "affinity") and old.get("schedulingGates"))
        ):
            return True
    return False


def _without_images(entries: Any) -> Any:
    return [{**each, "image": None} for each in entries] if isinstance(entries, list) else entries


def _of_pod(written: Written) -> Iterator[Refused]:
    yield from labels(written, "metadata", "labels")
    yield from of_spec(written, ("spec",), ("Always", "OnFailure", "Never"))
    if is_fixed(written):
        yield Refused("spec", PODS_FORBIDDEN, is_whole=False)


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
