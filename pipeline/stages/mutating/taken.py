"""Which values of fields the API server takes for certain after a mutation: small rules, and doubt about every other field.

The rules are a part of kubernetes pkg/apis/core/validation/validation.go and apimachinery pkg/api/validation: what needs no other
object. What they leave open may be refused by validation, or by a plugin that comes after mutating policies (Priority,
ServiceAccount, LimitRanger, RuntimeClass, quota), so a field without a rule here is in doubt.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from ...request import Json, Object
from .changes import child

ABSENT: Final = object()
_INT32_MAX = 2**31 - 1
# What the server itself adds to an object that lacks it.
_EMPTY: Final[tuple[Json, ...]] = ({}, [], None)
_ANNOTATIONS_BYTES_MAX = 256 * 1024
_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_DNS_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_DATA_KEY = re.compile(r"[-._a-zA-Z0-9]{1,253}")
_PORT_NAME = re.compile(r"(?=.*[a-z])(?!.*--)[a-z0-9]([-a-z0-9]{0,13}[a-z0-9])?")
_ENV_NAME = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*")

Check: TypeAlias = Callable[[Json], bool]
# How a part of an object is checked: by a value, by the fields of a map or of the entries of a list, or not at all (None).
Rule: TypeAlias = "Check | Mapping[str, Any] | list[Any] | Keyed | None"


class Keyed(NamedTuple):
    """A map with keys of the user's own. `is_free`: a key may be taken away."""

    key: Check
    value: Check
    is_free: bool = True


class Doubt(NamedTuple):
    """A field as a mutation leaves it, and why it may be refused. An empty path: any of the fields that it changes."""

    path: str
    why: str

    def __str__(self) -> str:
        return f"{self.path}: {self.why}" if self.path else self.why


UNCHECKED = "validation and plugins after mutation are not replayed for this field, and may refuse it"


def is_flag(value: Json) -> bool:
    """A boolean."""
    return isinstance(value, bool)


def is_text(value: Json) -> bool:
    """Any text."""
    return isinstance(value, str)


def is_count(value: Json) -> bool:
    """An integer of 32 bits that is not negative."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _INT32_MAX


def is_label_value(value: Json) -> bool:
    """A value of a label."""
    return isinstance(value, str) and (not value or _NAME.fullmatch(value) is not None)


def is_label_key(key: Json) -> bool:
    """A qualified name: a name of 63 characters, with a DNS subdomain before it or without."""
    prefix, slash, name = str(key).rpartition("/")
    return _NAME.fullmatch(name) is not None and (not slash or is_subdomain(prefix))


def is_dns_label(value: Json) -> bool:
    """A name as containers and volumes have it."""
    return isinstance(value, str) and _DNS_LABEL.fullmatch(value) is not None


def is_subdomain(value: Json) -> bool:
    """A name as most objects have it."""
    return isinstance(value, str) and len(value) <= 253 and _DNS_SUBDOMAIN.fullmatch(value) is not None


def _is_one_of(*wanted: str) -> Check:
    return lambda value: value in wanted


def _matches(pattern: re.Pattern[str]) -> Check:
    return lambda value: isinstance(value, str) and pattern.fullmatch(value) is not None


def _is_image(value: Json) -> bool:
    return isinstance(value, str) and bool(value) and value == value.strip()


def _is_data_key(key: Json) -> bool:
    return _DATA_KEY.fullmatch(key) is not None and key not in (".", "..") and not key.startswith("..")


def _is_mount_path(value: Json) -> bool:
    return isinstance(value, str) and bool(value) and ":" not in value


def _is_port(value: Json) -> bool:
    return is_count(value) and 0 < value < 65_536


def _is_off(value: Json) -> bool:
    return value is False


def _is_toleration(value: Json) -> bool:
    if not isinstance(value, dict) or value.keys() - {"key", "operator", "value", "effect", "tolerationSeconds"}:
        return False
    key, operator, effect = value.get("key") or "", value.get("operator") or "Equal", value.get("effect") or ""
    if operator not in ("Equal", "Exists") or (key and not is_label_key(key)) or (not key and operator != "Exists"):
        return False
    if effect not in ("", "NoSchedule", "PreferNoSchedule", "NoExecute") or (
        "tolerationSeconds" in value and effect != "NoExecute"
    ):
        return False
    return not value.get("value") if operator == "Exists" else is_label_value(value.get("value") or "")


METADATA: Final[Mapping[str, Rule]] = {
    "labels": Keyed(is_label_key, is_label_value),
    "annotations": Keyed(lambda key: is_label_key(key.lower()), is_text),
}
_SECCOMP: Final[Mapping[str, Rule]] = {"type": _is_one_of("RuntimeDefault", "Unconfined")}
_CONTAINER: Final[Mapping[str, Rule]] = {
    "name": is_dns_label,
    "image": _is_image,
    "imagePullPolicy": _is_one_of("Always", "IfNotPresent", "Never"),
    "command": [is_text],
    "args": [is_text],
    "workingDir": is_text,
    "env": [{"name": _matches(_ENV_NAME), "value": is_text}],
    "ports": [{"name": _matches(_PORT_NAME), "containerPort": _is_port, "protocol": _is_one_of("TCP", "UDP", "SCTP")}],
    "volumeMounts": [{"name": is_text, "mountPath": _is_mount_path, "readOnly": is_flag}],
    "securityContext": {
        "allowPrivilegeEscalation": is_flag,
        "privileged": is_flag,
        "readOnlyRootFilesystem": is_flag,
        "runAsNonRoot": is_flag,
        "runAsUser": is_count,
        "runAsGroup": is_count,
        "capabilities": {"add": [is_text], "drop": [is_text]},
        "seccompProfile": _SECCOMP,
    },
    "stdin": is_flag,
    "stdinOnce": is_flag,
    "tty": is_flag,
    "terminationMessagePath": is_text,
    "terminationMessagePolicy": _is_one_of("File", "FallbackToLogsOnError"),
}
_TEMPLATE_SPEC: Final[Mapping[str, Rule]] = {
    "containers": [_CONTAINER],
    "initContainers": [_CONTAINER],
    "volumes": [
        {
            "name": is_dns_label,
            "emptyDir": {"medium": _is_one_of("", "Memory")},
            "configMap": {"name": is_text, "optional": is_flag},
            "secret": {"secretName": is_text, "optional": is_flag},
        }
    ],
    "serviceAccountName": is_subdomain,
    "serviceAccount": is_text,
    "automountServiceAccountToken": is_flag,
    "enableServiceLinks": is_flag,
    "setHostnameAsFQDN": is_flag,
    "imagePullSecrets": [{"name": is_text}],
    "nodeSelector": Keyed(is_label_key, is_label_value),
    "tolerations": [_is_toleration],
    "schedulerName": is_subdomain,
    "hostNetwork": _is_off,
    "hostPID": _is_off,
    "hostIPC": _is_off,
    "priorityClassName": is_subdomain,
    "dnsPolicy": _is_one_of("ClusterFirst", "ClusterFirstWithHostNet", "Default"),
    "terminationGracePeriodSeconds": is_count,
    "securityContext": {
        "runAsNonRoot": is_flag,
        "runAsUser": is_count,
        "runAsGroup": is_count,
        "fsGroup": is_count,
        "supplementalGroups": [is_count],
        "fsGroupChangePolicy": _is_one_of("OnRootMismatch", "Always"),
        "seccompProfile": _SECCOMP,
    },
}
# A plugin looks the account of a Pod up, and another one its class. Templates take any.
_POD_SPEC: Final[Mapping[str, Rule]] = {
    name: rule for name, rule in _TEMPLATE_SPEC.items() if name not in ("serviceAccountName", "serviceAccount", "priorityClassName")
} | {"restartPolicy": _is_one_of("Always", "OnFailure", "Never")}
_CONTROLLER: Final[Mapping[str, Rule]] = {
    "metadata": METADATA,
    "spec": {
        "replicas": is_count,
        "minReadySeconds": is_count,
        "revisionHistoryLimit": is_count,
        "paused": is_flag,
        "template": {"metadata": METADATA, "spec": _TEMPLATE_SPEC},
    },
}
_RULES: Final[Mapping[tuple[str, str], Mapping[str, Rule]]] = {
    ("", "pods"): {"metadata": METADATA, "spec": _POD_SPEC},
    ("", "configmaps"): {
        "metadata": METADATA,
        "data": Keyed(_is_data_key, is_text),
        "binaryData": Keyed(_is_data_key, is_text),
        "immutable": is_flag,
    },
    ("", "secrets"): {"metadata": METADATA, "data": Keyed(_is_data_key, is_text, is_free=False), "immutable": is_flag},
    ("", "serviceaccounts"): {
        "metadata": METADATA,
        "automountServiceAccountToken": is_flag,
        "imagePullSecrets": [{"name": is_text}],
    },
    **{("apps", name): _CONTROLLER for name in ("deployments", "daemonsets", "replicasets", "statefulsets")},
}
_SCALE: Final[Mapping[str, Rule]] = {"spec": {"replicas": is_count}}
# Without these an entry is refused.
_REQUIRED: Final = frozenset({"name", "image", "mountPath", "type", "metadata", "spec", "template", "containers"})


def rule_of(resource: tuple[str, str], subresource: str) -> Mapping[str, Rule]:
    """How the fields of a built-in kind are checked, by its API group and resource."""
    if subresource == "scale":
        return _SCALE
    if subresource == "status":  # the store keeps the spec as it was
        return {"metadata": METADATA, "spec": lambda value: True}
    return {"metadata": METADATA} if subresource else _RULES.get(resource, {"metadata": METADATA})


def doubts(before: Json, after: Json, rule: Rule, path: str = "") -> Iterator[Doubt]:
    """The places at which a change leaves a value that is not surely taken. A missing value is ABSENT."""
    if before is after or before == after or (before is ABSENT and after in _EMPTY):
        return
    name = path.rpartition(".")[2]
    if rule is None:
        yield Doubt(path, UNCHECKED)
    elif after is ABSENT:
        if name in _REQUIRED:
            yield Doubt(path, UNCHECKED)
    elif isinstance(rule, Keyed):
        yield from _of_keys(before, after, rule, path)
    elif isinstance(rule, Mapping):
        if not isinstance(after, dict):
            yield Doubt(path, UNCHECKED)
            return
        old = before if isinstance(before, dict) else {}
        for each in sorted(old.keys() | after.keys()):
            yield from doubts(old.get(each, ABSENT), after.get(each, ABSENT), rule.get(each), child(path, each))
    elif isinstance(rule, list):
        if not isinstance(after, list):
            yield Doubt(path, UNCHECKED)
            return
        for number, old_entry, new_entry in _pairs(before if isinstance(before, list) else [], after):
            yield from doubts(old_entry, new_entry, rule[0], f"{path}[{number}]")
    elif not rule(after):
        yield Doubt(path, UNCHECKED)


def _of_keys(before: Json, after: Json, rule: Keyed, path: str) -> Iterator[Doubt]:
    if not isinstance(after, dict):
        yield Doubt(path, UNCHECKED)
        return
    old = before if isinstance(before, dict) else {}
    for key in sorted(old.keys() | after.keys()):
        new = after.get(key, ABSENT)
        if old.get(key, ABSENT) == new:
            continue
        if not rule.is_free if new is ABSENT else not (rule.key(key) and rule.value(new)):
            yield Doubt(child(path, key), UNCHECKED)


def _pairs(before: list[Json], after: list[Json]) -> Iterator[tuple[str, Json, Json]]:
    """Entries by their names, or by their numbers; those that are gone leave nothing to check."""
    named = {each["name"]: each for each in before if isinstance(each, dict) and isinstance(each.get("name"), str)}
    for number, each in enumerate(after):
        name = each.get("name") if isinstance(each, dict) else None
        if isinstance(name, str):
            yield f"name={name}", named.get(name, ABSENT), each
        else:
            yield str(number), before[number] if number < len(before) else ABSENT, each


def pod_doubts(before: Object, after: Object, path: str) -> Iterator[Doubt]:
    """What only several fields of a Pod's spec say together, where a change touched them."""
    volumes = [each.get("name") for each in after.get("volumes") or () if isinstance(each, dict)]
    if before.get("volumes") != after.get("volumes"):
        for each in after.get("volumes") or ():
            if volumes.count(each.get("name")) > 1 or len(each) != 2:
                yield Doubt(f"{path}.volumes[name={each.get('name')}]", "a volume has a name of its own and one source")
    every = [*_containers(after)]
    names = [each.get("name") for _, each in every]
    old = {(kind, each.get("name")): each for kind, each in _containers(before)}
    for kind, each in every:
        was, place = old.get((kind, each.get("name")), {}), f"{path}.{kind}[name={each.get('name')}]"
        is_wrong = names.count(each.get("name")) > 1 or not {"name", "image"} <= each.keys()
        if is_wrong and (was != each or names != [entry.get("name") for _, entry in _containers(before)]):
            yield Doubt(place, "a container has a name of its own and an image")
        if was.get("volumeMounts") != each.get("volumeMounts") or before.get("volumes") != after.get("volumes"):
            yield from _of_mounts(each, volumes, place)
        if was.get("securityContext") != each.get("securityContext"):
            yield from _of_security(each, place)


def _containers(spec: Object) -> Iterator[tuple[str, Object]]:
    for kind in ("initContainers", "containers"):
        for each in spec.get(kind) or ():
            yield kind, each


def _of_mounts(container: Object, volumes: list[Any], place: str) -> Iterator[Doubt]:
    mounts = [each for each in container.get("volumeMounts") or () if isinstance(each, dict)]
    paths = [each.get("mountPath") for each in mounts]
    for each in mounts:
        if each.get("name") not in volumes:
            yield Doubt(f"{place}.volumeMounts[name={each.get('name')}]", "no volume of the Pod has this name")
        elif paths.count(each.get("mountPath")) > 1 or not each.get("mountPath"):
            yield Doubt(f"{place}.volumeMounts[name={each.get('name')}]", "a mount has a path of its own")


def _of_security(container: Object, place: str) -> Iterator[Doubt]:
    found = container.get("securityContext") or {}
    added = (found.get("capabilities") or {}).get("add") or ()
    if found.get("allowPrivilegeEscalation") is False and (
        found.get("privileged") or any(str(each).upper().removeprefix("CAP_") == "SYS_ADMIN" for each in added)
    ):
        why = "allowPrivilegeEscalation must not be false where privileged is true or SYS_ADMIN is added"
        yield Doubt(f"{place}.securityContext", why)


def annotation_doubts(annotations: Mapping[str, Any], path: str) -> Iterator[Doubt]:
    """The size that all annotations have together."""
    if sum(len(str(key).encode()) + len(str(value).encode()) for key, value in annotations.items()) > _ANNOTATIONS_BYTES_MAX:
        yield Doubt(path, f"all annotations together may have {_ANNOTATIONS_BYTES_MAX >> 10} KiB")
