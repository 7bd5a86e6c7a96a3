"""Other kinds. Follows kubernetes pkg/apis/{core,rbac,policy,networking,autoscaling}/validation/validation.go."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from ....cel.library.quantity import compare, is_quantity, parse
from ....request import Object
from ...mutating.frozen import CLAIMS_FORBIDDEN
from .internal import NotKnownError, claim_spec, difference
from .rule import Refused, Rules, Written, at, fields, go_json, invalid, labels, unsupported

_SUBJECTS: Final = ("ServiceAccount", "User", "Group")


def _metadata(written: Written) -> Iterator[Refused]:
    yield from labels(written, "metadata", "labels")


def _of_binding(written: Written) -> Iterator[Refused]:
    yield from _metadata(written)
    was = at(written.before, "subjects") or ()
    for number, each in enumerate(at(written.after, "subjects") or ()):
        if each not in was and each.get("kind") not in _SUBJECTS:
            yield unsupported(f"subjects[{number}].kind", each.get("kind"), _SUBJECTS)
    new = at(written.after, "roleRef")
    if written.old is not None and new not in (at(written.before, "roleRef"), at(written.old, "roleRef")):
        value = {"APIGroup": new.get("apiGroup", ""), "Kind": new.get("kind", ""), "Name": new.get("name", "")}
        yield Refused("roleRef", f"Invalid value: {go_json(value)}: cannot change roleRef")


def _of_claim(written: Written) -> Iterator[Refused]:
    yield from _metadata(written)
    amount = at(written.after, "spec", "resources", "requests", "storage")
    was = at(written.before, "spec", "resources", "requests", "storage")
    is_bad = amount != was and is_quantity(str(amount)) and compare(parse(str(amount)), parse("0")) <= 0
    if is_bad:
        yield invalid("spec.resources[storage]", str(amount), "must be greater than zero")
    if written.old is None:
        return
    old, before, after = (at(each, "spec") or {} for each in (written.old, written.before, written.after))
    names = (after.keys() | before.keys()) - {"resources", "volumeAttributesClassName"}
    is_bound = at(written.old, "status", "phase") == "Bound"
    asked = (amount not in (was, at(written.old, "spec", "resources", "requests", "storage"))) and not is_bound
    # A claim without a class may get one (validateStorageClassUpgradeFromNil).
    names -= {"storageClassName"} if old.get("storageClassName") is None else set()
    if asked or any(after.get(name) not in (before.get(name), old.get(name)) for name in names):
        try:
            yield Refused("spec", f"{CLAIMS_FORBIDDEN}\n{difference(claim_spec(old), claim_spec(_munged(old, after, is_bound)))}")
        except NotKnownError:
            yield Refused("spec", CLAIMS_FORBIDDEN, is_whole=False)
    yield from _shrunk(written)


def _munged(old: Object, after: Object, is_bound: bool) -> Object:
    """The spec of a claim without what an update of a bound one may change."""
    free = ("resources", "volumeAttributesClassName") if is_bound else ()
    return {name: value for name, value in after.items() if name not in free} | {name: old[name] for name in free if name in old}


def _shrunk(written: Written) -> Iterator[Refused]:
    sizes = [at(each, "spec", "resources", "requests", "storage") for each in (written.old, written.after)]
    has = at(written.old, "status", "capacity", "storage") or "0"
    was = at(written.before, "spec", "resources", "requests", "storage")
    if sizes[1] == was or not all(is_quantity(str(each)) for each in (*sizes, has)):
        return
    old, new, capacity = (parse(str(each)) for each in (*sizes, has))
    if compare(new, old) < 0 and compare(new, capacity) <= 0:
        yield Refused("spec.resources.requests.storage", "Forbidden: field can not be less than status.capacity")


def _of_service(written: Written) -> Iterator[Refused]:
    yield from _metadata(written)
    ports, was = (at(each, "spec", "ports") or [] for each in (written.after, written.before))
    seen: set[Any] = set()
    for number, each in enumerate(ports):
        key = (each.get("protocol", "TCP"), each.get("port"))
        if each not in was and key in seen:
            value = {"Name": "", "Protocol": key[0], "AppProtocol": None, "Port": key[1], "TargetPort": 0, "NodePort": 0}
            yield Refused(f"spec.ports[{number}]", f"Duplicate value: {go_json(value)}")
        seen.add(key)


def _fixed_address(written: Written) -> Iterator[Refused]:
    if written.old is None:
        return
    new, old = at(written.after, "spec", "clusterIPs"), at(written.old, "spec", "clusterIPs")
    stays = at(written.old, "spec", "type") == at(written.after, "spec", "type") != "ExternalName"
    if stays and old and new not in (old, at(written.before, "spec", "clusterIPs")):
        yield Refused("spec.clusterIPs[0]", f"Invalid value: {go_json(new)}: may not change once set")


def _of_budget(written: Written) -> Iterator[Refused]:
    yield from _metadata(written)
    spec, was = (at(each, "spec") or {} for each in (written.after, written.before))
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None and spec != was:
        value = {
            "MinAvailable": spec["minAvailable"],
            "Selector": spec.get("selector"),
            "MaxUnavailable": spec["maxUnavailable"],
            "UnhealthyPodEvictionPolicy": spec.get("unhealthyPodEvictionPolicy"),
        }
        yield Refused("spec", f"Invalid value: {go_json(value)}: minAvailable and maxUnavailable cannot be both set")


def _of_ingress(written: Written) -> Iterator[Refused]:
    yield from _metadata(written)
    was = [at(each, "http", "paths") or [] for each in at(written.before, "spec", "rules") or ()]
    known = [path for paths in was for path in paths]
    for number, rule in enumerate(at(written.after, "spec", "rules") or ()):
        for index, path in enumerate(at(rule, "http", "paths") or ()):
            value = path.get("path") or ""
            if path not in known and path.get("pathType") in ("Exact", "Prefix") and not value.startswith("/"):
                yield invalid(f"spec.rules[{number}].http.paths[{index}].path", value, "must be an absolute path")


def _of_scaler(written: Written) -> Iterator[Refused]:
    yield from _metadata(written)
    spec, was = (at(each, "spec") or {} for each in (written.after, written.before))
    most, least = spec.get("maxReplicas"), spec.get("minReplicas")
    is_changed = (most, least) != (was.get("maxReplicas"), was.get("minReplicas"))
    if is_changed and isinstance(most, int) and isinstance(least, int) and most < least:
        yield invalid("spec.maxReplicas", most, "must be greater than or equal to `minReplicas`")


_LABELS: Final = ("metadata.labels[]", "metadata.labels.*")
BINDINGS: Final = Rules(fields(*_LABELS, "subjects", "subjects[]*", "roleRef*"), (_of_binding,))
CLAIMS: Final = Rules(fields(*_LABELS, "spec.resources.requests.storage", "spec.storageClassName"), (_of_claim,))
SERVICES: Final = Rules(
    fields(*_LABELS, "spec.ports", "spec.ports[]*", "spec.clusterIP", "spec.clusterIPs*"), (_fixed_address, _of_service)
)
BUDGETS: Final = Rules(fields(*_LABELS, "spec.minAvailable", "spec.maxUnavailable"), (_of_budget,))
INGRESSES: Final = Rules(fields(*_LABELS, "spec.rules[]*.path"), (_of_ingress,))
SCALERS: Final = Rules(fields(*_LABELS, "spec.minReplicas", "spec.maxReplicas"), (_of_scaler,))
PLAIN: Final = Rules(fields(*_LABELS), (_metadata,))
