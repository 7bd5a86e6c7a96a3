"""The built-in plugins that look at a Pod again after mutating policies changed it.

Follows kubernetes/kubernetes plugin/pkg/admission/{priority,serviceaccount,limitranger}/admission.go. A changed object goes through
mutating admission a second time, where Priority and ServiceAccount may refuse it. LimitRanger refuses in validating admission.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from ...cel.library.quantity import add, compare, parse
from ...history.json_values import copied
from ...policies.model import ParamKind
from ...request import AdmissionRequest, Known, Object, Operation, Unknown
from ...world import World
from .answer import LIMIT_RANGE, PRIORITY, QUOTA, SERVICE_ACCOUNT, Answer, unknown

_PRIORITY_CLASS: Final = ParamKind("scheduling.k8s.io/v1", "PriorityClass")
_SERVICE_ACCOUNT: Final = ParamKind("v1", "ServiceAccount")
_LIMIT_RANGE: Final = ParamKind("v1", "LimitRange")
_QUOTA: Final = ParamKind("v1", "ResourceQuota")
KINDS: Final = (_PRIORITY_CLASS, _SERVICE_ACCOUNT, _LIMIT_RANGE, _QUOTA)
_LIMITED: Final = "kubernetes.io/limit-ranger"
_TOKEN_PATH: Final = "/var/run/secrets/kubernetes.io/serviceaccount"


def is_pod(request: AdmissionRequest) -> bool:
    """Whether a request writes a Pod itself."""
    return (request.resource.group, request.resource.resource, request.subresource) == ("", "pods", "")


def again(request: AdmissionRequest, before: Object, after: Object, world: World) -> Object | Answer:
    """A changed Pod after the plugins of the second round, or their refusal. `before` is the Pod without the changes."""
    if not is_pod(request):
        return after
    found: Object = copied(after)
    _request_limits(found)
    if request.operation is not Operation.CREATE:
        return found
    for step in (_limited, _account, _priority):
        if (refused := step(request, before, found, world)) is not None:
            return refused
    return found


def first(request: AdmissionRequest, sent: Object, answered: Object | None, world: World) -> Object:
    """A new Pod as the plugins of the first round leave it, for mutating policies to see. `answered` is the Pod in the answer.

    What is not known of it stays as it was sent: a refusal of these plugins is in the record.
    """
    if not is_pod(request) or request.operation is not Operation.CREATE:
        return sent
    found: Object = copied(sent)
    spec = found.get("spec")
    if not isinstance(spec, dict):
        return sent
    _limited(request, {}, found, world)
    spec.setdefault("serviceAccountName", "default")
    spec.setdefault("serviceAccount", spec["serviceAccountName"])
    if spec.get("priority") is None:
        _prioritized(request, spec, world)
    _with_token(request, found, answered, world)
    return found


def _with_token(request: AdmissionRequest, pod: Object, answered: Object | None, world: World) -> None:
    """The volume with the token of the account, and a mount of it in each container."""
    spec = pod["spec"]
    if answered is not None:
        volume = next((each for each in (answered.get("spec") or {}).get("volumes") or () if _is_token(each)), None)
    else:
        account = world.param(*_of(_SERVICE_ACCOUNT), request.namespace, spec["serviceAccountName"])
        own = account.value if isinstance(account, Known) else None
        wanted = spec.get("automountServiceAccountToken")
        wanted = (own or {}).get("automountServiceAccountToken") if wanted is None else wanted
        volume = {"name": "kube-api-access-*****", "projected": {}} if own is not None and wanted is not False else None
    if volume is None or any(each.get("name") == volume["name"] for each in spec.get("volumes") or ()):
        return
    mounts = {**pod, "spec": {**spec, "volumes": [*(spec.get("volumes") or ()), volume]}}
    pod["spec"] = with_tokens(mounts)["spec"]


def _limited(request: AdmissionRequest, before: Object, after: Object, world: World) -> Answer | None:
    """LimitRanger's defaults for what the mutation left without them, and the note that the plugin leaves."""
    if _resources(before) == _resources(after):
        return None
    found = world.params(*_of(_LIMIT_RANGE), request.namespace)
    if isinstance(found, Unknown):
        return unknown(LIMIT_RANGE, f"the limit ranges of namespace {request.namespace}: {found.reason}")
    notes: list[str] = []
    spec = after.get("spec") or {}
    for item in (item for each in found.value for item in (each.get("spec") or {}).get("limits") or ()):
        if item.get("type") != "Container":
            continue
        for kind, what in (("containers", "container"), ("initContainers", "init container")):
            for container in spec.get(kind) or ():
                notes += _with_defaults(container, item, what)
    if notes:
        metadata = after.setdefault("metadata", {})
        metadata["annotations"] = (metadata.get("annotations") or {}) | {_LIMITED: f"LimitRanger plugin set: {'; '.join(notes)}"}
    return None


def _with_defaults(container: Object, item: Object, what: str) -> Iterator[str]:
    resources = container.setdefault("resources", {})
    added = {}
    for part, source in (("limits", "default"), ("requests", "defaultRequest")):
        own = resources.get(part) or {}
        added[part] = {name: value for name, value in (item.get(source) or {}).items() if name not in own}
        if added[part]:
            resources[part] = own | added[part]
    for part, word in (("requests", "request"), ("limits", "limit")):
        if added[part]:
            yield f"{', '.join(sorted(added[part]))} {word} for {what} {container.get('name')}"


def _request_limits(pod: Object) -> None:
    """What a container is limited to, it requests (kubernetes pkg/apis/core/v1/defaults.go, SetDefaults_Pod)."""
    for container in _containers(pod):
        resources = container.get("resources") or {}
        if resources.get("limits"):
            container["resources"] = {**resources, "requests": resources["limits"] | (resources.get("requests") or {})}


def with_class(pod: Object) -> Object:
    """A Pod with the class of its resources, which the server computes (kubernetes pkg/apis/core/v1/helper/qos/qos.go)."""
    status = pod.get("status") or {}
    if "qosClass" not in status:
        return pod
    own = [each.get("resources") or {} for each in _containers(pod)]
    has_any = any(each.get(part) for each in own for part in ("requests", "limits"))
    is_full = all(
        {"cpu", "memory"} <= (each.get("limits") or {}).keys() and each.get("requests", each["limits"]) == each["limits"]
        for each in own
    )
    return {**pod, "status": {**status, "qosClass": "BestEffort" if not has_any else "Guaranteed" if is_full else "Burstable"}}


def _account(request: AdmissionRequest, before: Object, after: Object, world: World) -> Answer | None:
    spec = after.get("spec") or {}
    name = spec.get("serviceAccountName") or ""
    if name == ((before.get("spec") or {}).get("serviceAccountName") or "") or not name:
        return None
    found = world.param(*_of(_SERVICE_ACCOUNT), request.namespace, name)
    if isinstance(found, Unknown):
        return unknown(SERVICE_ACCOUNT, f"whether service account {name} existed: {found.reason}")
    if found.value is None:
        text = f'error looking up service account {request.namespace}/{name}: serviceaccount "{name}" not found'
        return _forbidden(request, text, SERVICE_ACCOUNT)
    spec["serviceAccount"] = name
    return None


def _priority(request: AdmissionRequest, before: Object, after: Object, world: World) -> Answer | None:
    spec, was = after.get("spec") or {}, before.get("spec") or {}
    fields = ("priorityClassName", "priority", "preemptionPolicy")
    if all(spec.get(name) == was.get(name) for name in fields):
        return None
    return _prioritized(request, spec, world)


def _prioritized(request: AdmissionRequest, spec: Object, world: World) -> Answer | None:
    """Set the priority of a Pod by its class, or the refusal of one that it has already."""
    name = spec.get("priorityClassName") or ""
    found = _class_named(name, world) if name else _default_class(world)
    if isinstance(found, Unknown):
        return unknown(PRIORITY, f"the priority class {name or 'that is the default'}: {found.reason}")
    if name and found is None:
        return _forbidden(request, f"no PriorityClass with name {name} was found", PRIORITY)
    value = int((found or {}).get("value", 0))
    own = spec.get("priority")
    if own is not None and own != value:
        text = (
            f"the integer value of priority ({own}) must not be provided in pod spec; "
            f"priority admission controller computed {value} from the given PriorityClass name"
        )
        return _forbidden(request, text, PRIORITY)
    if found is not None and not name:
        spec["priorityClassName"] = found["metadata"]["name"]
    spec["priority"] = value
    policy = (found or {}).get("preemptionPolicy") or "PreemptLowerPriority"
    if spec.get("preemptionPolicy") not in (None, policy):
        text = (
            f"the string value of PreemptionPolicy ({spec['preemptionPolicy']}) must not be provided in pod spec; "
            f"priority admission controller computed {policy} from the given PriorityClass name"
        )
        return _forbidden(request, text, PRIORITY)
    spec["preemptionPolicy"] = policy
    return None


def _class_named(name: str, world: World) -> Object | Unknown | None:
    found = world.param(*_of(_PRIORITY_CLASS), "", name)
    return found if isinstance(found, Unknown) else found.value


def _default_class(world: World) -> Object | Unknown | None:
    found = world.params(*_of(_PRIORITY_CLASS), "")
    if isinstance(found, Unknown):
        return found
    own = [each for each in found.value if each.get("globalDefault")]
    # Of several the one with the lowest value counts.
    return min(own, key=lambda each: int(each.get("value", 0)), default=None)


def with_tokens(found: Object) -> Object:
    """A Pod whose containers all see the token of its account, as the plugin leaves them. The log shows the name of the volume."""
    spec = found.get("spec") or {}
    volume = next((each["name"] for each in spec.get("volumes") or () if _is_token(each)), None)
    if volume is None:
        return found
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        mounts = container.get("volumeMounts") or []
        if not any(each.get("mountPath") == _TOKEN_PATH for each in mounts):
            container["volumeMounts"] = [*mounts, {"name": volume, "readOnly": True, "mountPath": _TOKEN_PATH}]
    return found


def _is_token(volume: Object) -> bool:
    return str(volume.get("name", "")).startswith("kube-api-access-") and "projected" in volume


def limits(request: AdmissionRequest, before: Object, after: Object, world: World) -> Answer | None:
    """What LimitRanger says of a changed Pod that it would not have said of the other one."""
    if not is_pod(request) or request.operation is not Operation.CREATE or _resources(before) == _resources(after):
        return None
    found = world.params(*_of(_LIMIT_RANGE), request.namespace)
    if isinstance(found, Unknown):
        return unknown(LIMIT_RANGE, f"the limit ranges of namespace {request.namespace}: {found.reason}")
    for each in found.value:
        # Equal errors are one (apimachinery pkg/util/errors/errors.go, aggregate).
        items = (each.get("spec") or {}).get("limits") or ()
        errors = list(dict.fromkeys(error for item in items for error in _of_item(item, after)))
        if errors:
            text = errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"
            return _forbidden(request, text, LIMIT_RANGE, ending="*****")
    return None


def quota(request: AdmissionRequest, before: Object, after: Object, world: World) -> Answer | None:
    """Doubt where a changed Pod asks for more than a quota has left. How much was used at the time is known in part."""
    if not is_pod(request) or request.operation is not Operation.CREATE or _resources(before) == _resources(after):
        return None
    found = world.params(*_of(_QUOTA), request.namespace)
    if isinstance(found, Unknown):
        return unknown(QUOTA, f"the quotas of namespace {request.namespace}: {found.reason}")
    for each in found.value:
        used = (each.get("status") or {}).get("used") or {}
        for name, hard in ((each.get("spec") or {}).get("hard") or {}).items():
            part, _, resource = name.rpartition(".")
            asked = [(one.get(part or "requests") or {}).get(resource) for one in _resources(after)]
            if resource not in ("cpu", "memory") or not any(asked):
                continue
            total = parse(str(used.get(name, "0")))
            for amount in filter(None, asked):
                total = add(total, parse(str(amount)), 1)
            if compare(total, parse(str(hard))) > 0:
                name = (each.get("metadata") or {}).get("name", "")
                return unknown(QUOTA, f"quota {name} may have less left than the changed Pod asks for")
    return None


def _resources(pod: Object) -> list[Any]:
    return [each.get("resources") or {} for each in _containers(pod)]


def _containers(pod: Object) -> Sequence[Object]:
    spec = pod.get("spec") or {}
    return [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]


def _of_item(item: Object, pod: Object) -> Iterator[str]:
    if item.get("type") != "Container":
        return
    for container in _containers(pod):
        resources = container.get("resources") or {}
        asked, allowed = (resources.get(name) or {} for name in ("requests", "limits"))
        for name, bound in sorted((item.get("min") or {}).items()):
            if text := _below(bound, asked.get(name), allowed.get(name)):
                yield f"minimum {name} usage per Container is {bound}{text}"
        for name, bound in sorted((item.get("max") or {}).items()):
            if text := _above(bound, asked.get(name), allowed.get(name)):
                yield f"maximum {name} usage per Container is {bound}{text}"


def _below(bound: Any, asked: Any, allowed: Any) -> str:
    if asked is None:
        return ".  No request is specified"
    if _differs(asked, bound) < 0:
        return f", but request is {asked}"
    return f", but limit is {allowed}" if allowed is not None and _differs(allowed, bound) < 0 else ""


def _above(bound: Any, asked: Any, allowed: Any) -> str:
    if allowed is None:
        return ".  No limit is specified"
    if _differs(allowed, bound) > 0:
        return f", but limit is {allowed}"
    return f", but request is {asked}" if asked is not None and _differs(asked, bound) > 0 else ""


def _differs(left: Any, right: Any) -> int:
    return compare(parse(str(left)), parse(str(right)))


def _forbidden(request: AdmissionRequest, text: str, step: str, ending: str = "") -> Answer:
    name = request.name.value if isinstance(request.name, Known) else ""
    value = request.object.value if isinstance(request.object, Known) else None
    # Mutating admission calls an object without a name by the beginning of it (apiserver pkg/admission/errors.go). Later the name
    # has been made up, with an ending that the record does not show.
    beginning = ((value or {}).get("metadata") or {}).get("generateName")
    name = name or (f"{beginning}{ending}" if beginning else "")
    return Answer("deny", 403, f'pods "{name}" is forbidden: {text}', step, reason="Forbidden")


def _of(kind: ParamKind) -> tuple[str, str]:
    return kind.api_version, kind.kind
