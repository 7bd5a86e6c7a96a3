"""Controllers. Follows kubernetes pkg/apis/{apps,batch}/validation/validation.go."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from ....request import Object
from ...mutating.frozen import STATEFUL_SETS_FORBIDDEN
from .internal import NotKnownError, pod_spec, template
from .pods import known_below, of_spec
from .rule import IMMUTABLE, Refused, Rules, Written, at, fields, go_json, invalid, labels

_ALWAYS: Final = ("Always",)
_OF_JOBS: Final = ("OnFailure", "Never")
_FREE_OF_STATEFUL_SETS: Final = frozenset(
    (
        *("replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit", "minReadySeconds"),
        "persistentVolumeClaimRetentionPolicy",
    )
)
_TEMPLATE: Final = ("spec", "template")
# What an update of a suspended Job may change in its template (batch/validation/validation.go, validatePodTemplateUpdate).
_SCHEDULING: Final = frozenset({"nodeSelector", "affinity", "tolerations", "schedulingGates"})
_SECURITY_OF_TEMPLATES: Final = ("securityContext", "securityContext.*")


def _selector(written: Written) -> Iterator[Refused]:
    new, was = (at(each, "spec", "selector") for each in (written.after, written.before))
    if written.old is not None and new != was and new != at(written.old, "spec", "selector"):
        yield Refused("spec.selector", f"Invalid value: {go_json(_sorted(new))}: {IMMUTABLE}")


def _template_labels(written: Written) -> Iterator[Refused]:
    selector, found = at(written.after, "spec", "selector") or {}, at(written.after, *_TEMPLATE, "metadata", "labels") or {}
    same = all(
        at(written.before, *path) == at(written.after, *path) for path in (("spec", "selector"), (*_TEMPLATE, "metadata", "labels"))
    )
    wanted = selector.get("matchLabels") or {}
    if not same and not selector.get("matchExpressions") and any(found.get(key) != value for key, value in wanted.items()):
        text = f"Invalid value: {go_json(_sorted(found))}: `selector` does not match template `labels`"
        yield Refused("spec.template.metadata.labels", text)


def _sorted(value: Any) -> Any:
    return {key: _sorted(each) for key, each in sorted(value.items())} if isinstance(value, dict) else value


def _metadata(written: Written) -> Iterator[Refused]:
    yield from labels(written, "metadata", "labels")


def _spec(written: Written) -> Iterator[Refused]:
    yield from of_spec(written, (*_TEMPLATE, "spec"), _ALWAYS)


def _fixed(written: Written) -> Iterator[Refused]:
    if written.old is None:
        return
    old, before, after = (at(each, "spec") or {} for each in (written.old, written.before, written.after))
    names = (after.keys() | before.keys()) - _FREE_OF_STATEFUL_SETS
    if any(after.get(name) not in (before.get(name), old.get(name)) for name in names):
        yield Refused("spec", STATEFUL_SETS_FORBIDDEN)


def _of_job(written: Written) -> Iterator[Refused]:
    yield from labels(written, "metadata", "labels")
    limit = at(written.after, "spec", "backoffLimit")
    if limit != at(written.before, "spec", "backoffLimit") and isinstance(limit, int) and limit < 0:
        yield invalid("spec.backoffLimit", limit, "must be greater than or equal to 0")
    yield from of_spec(written, (*_TEMPLATE, "spec"), _OF_JOBS)
    yield from _fixed_template(written)


def _fixed_template(written: Written) -> Iterator[Refused]:
    if written.old is None:
        return
    ends = [at(each, *_TEMPLATE) or {} for each in (written.old, written.before, written.after)]
    if ends[2] in ends[:2]:
        return
    is_open = bool(at(written.old, "spec", "suspend")) and at(written.old, "status", "startTime") is None
    old, new = (_without_scheduling(each) if is_open else each for each in (ends[0], ends[2]))
    if old == new:
        return
    path = "spec.template.spec" if is_open else "spec.template"
    try:
        value = pod_spec(ends[2].get("spec") or {}) if is_open else template(ends[2])
        yield Refused(path, f"Invalid value: {go_json(value)}: {IMMUTABLE}")
    except NotKnownError:
        yield Refused(path, IMMUTABLE, is_whole=False)


def _without_scheduling(template: Object) -> Object:
    metadata = {name: value for name, value in (template.get("metadata") or {}).items() if name not in ("labels", "annotations")}
    return {
        "metadata": metadata,
        "spec": {name: value for name, value in (template.get("spec") or {}).items() if name not in _SCHEDULING},
    }


def _of_cron_job(written: Written) -> Iterator[Refused]:
    yield from labels(written, "metadata", "labels")
    yield from of_spec(written, ("spec", "jobTemplate", "spec", "template", "spec"), _OF_JOBS)


_KNOWN: Final = ("metadata.labels[]", "metadata.labels.*")
_OF_TEMPLATE: Final = (
    *known_below("spec.template.spec"),
    "spec.template.spec.restartPolicy",
    "spec.template.metadata.labels*",
    "spec.selector*",
)
DEPLOYMENTS: Final = Rules(fields(*_KNOWN, *_OF_TEMPLATE), (_metadata, _template_labels, _spec, _selector))
DAEMON_SETS: Final = Rules(fields(*_KNOWN, *_OF_TEMPLATE), (_metadata, _selector, _template_labels, _spec))
STATEFUL_SETS: Final = Rules(fields(*_KNOWN, *_OF_TEMPLATE, "spec.serviceName"), (_metadata, _template_labels, _spec, _fixed))
JOBS: Final = Rules(
    fields(
        *_KNOWN,
        *known_below("spec.template.spec"),
        *(f"spec.template.spec.{each}" for each in _SECURITY_OF_TEMPLATES),
        "spec.template.spec.restartPolicy",
        "spec.template.spec.containers[].image",
        "spec.template.spec.initContainers[].image",
        "spec.template.metadata.labels*",
        "spec.template.metadata.annotations*",
        "spec.backoffLimit",
    ),
    (_of_job,),
)
_CRON: Final = "spec.jobTemplate.spec.template.spec"
CRON_JOBS: Final = Rules(
    fields(
        *_KNOWN,
        *known_below(_CRON),
        *(f"{_CRON}.{each}" for each in _SECURITY_OF_TEMPLATES),
        f"{_CRON}.containers[].image",
        f"{_CRON}.initContainers[].image",
        "spec.jobTemplate.metadata.labels*",
        "spec.jobTemplate.spec.template.metadata.labels*",
        "spec.suspend",
    ),
    (_of_cron_job,),
)
