"""From the JSON of a webhook configuration to the model, with the defaults of its version.

Defaults follow kubernetes pkg/apis/admissionregistration/{v1,v1beta1}/defaults.go, and the rules for files
pkg/apis/admissionregistration/validation/validation.go. v1beta1 objects left the API with 1.22, but their files are still around.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from ingest.errors import InputError

from ...given import is_namespace
from ...manifests.documents import Document
from ...manifests.exempting import MATCH_CONDITIONS_MAX
from ...manifests.fields import Fields
from ...policies.model import FailurePolicy, NamedExpression
from ...request import Object
from ..validating.decode import match_resources_of_webhook
from ..validating.load import given_object
from ..validating.validate import OPERATIONS, is_qualified_name
from .model import GROUP, Configuration, Phase, Webhook

TIMEOUT_SECONDS_MAX = 30
_NAME_LABELS_MIN = 3
_SIDE_EFFECTS = ("None", "NoneOnDryRun", "Some", "Unknown")
_RULE = ("operations", "apiGroups", "apiVersions", "resources", "scope")
_WEBHOOK = (
    "name",
    "clientConfig",
    "rules",
    "failurePolicy",
    "matchPolicy",
    "namespaceSelector",
    "objectSelector",
    "sideEffects",
    "timeoutSeconds",
    "admissionReviewVersions",
    "matchConditions",
    "reinvocationPolicy",
)


class _Version(NamedTuple):
    """The defaults of one version of the API."""

    failure_policy: str
    match_policy: str
    timeout_seconds: int
    side_effects: str


_VERSIONS = {
    f"{GROUP}/v1": _Version("Fail", "Equivalent", 10, ""),
    f"{GROUP}/v1beta1": _Version("Ignore", "Exact", 30, "Unknown"),
}
_KINDS = {phase.kind: phase for phase in Phase}


def configurations_of(documents: Iterable[Document]) -> tuple[Configuration, ...]:
    """The webhook configurations among some manifests, in the order of calls. Raises InputError with file and line."""
    documents = tuple(documents)
    namespaces = tuple(given_object(each) for each in documents if is_namespace(each))
    found: dict[tuple[Phase, str], Configuration] = {}
    for document in documents:
        root = Fields(document)
        is_own = root.text("apiVersion").partition("/")[0] == GROUP and root.text("kind") in _KINDS
        if not is_own:
            continue
        configuration = configuration_from_document(document)
        key = (configuration.phase, configuration.name)
        if key in found:
            where = found[key].source
            raise InputError(f"{configuration.source}: {key[0].kind} {key[1]!r} is also in {where}; give one of them")
        found[key] = replace(configuration, namespaces=namespaces)
    return tuple(sorted(found.values(), key=lambda each: (each.name, each.phase)))


def configuration_from_document(document: Document) -> Configuration:
    """A configuration that a person wrote. Raises InputError for everything that the API server would reject."""
    root = Fields(document)
    version = root.text("apiVersion")
    if version not in _VERSIONS:
        raise root.error(f" must be one of {', '.join(_VERSIONS)}, not {version!r}", "apiVersion")
    root.only("apiVersion", "kind", "metadata", "webhooks")
    configuration = _configuration(root)
    seen: set[str] = set()
    for hook, fields in zip(configuration.webhooks, root.objects("webhooks"), strict=True):
        _validate(hook, fields, configuration.phase, version)
        if hook.name in seen and version.endswith("/v1"):
            raise fields.error(f" must be unique in the configuration: {hook.name!r} is there twice", "name")
        seen.add(hook.name)
    return configuration


def configuration_from_object(value: Object, source: str) -> Configuration:
    """A configuration as the API server stored it: with defaults, but not validated again. Raises InputError if unreadable."""
    return _configuration(Fields(Document(value, source)))


def _configuration(root: Fields) -> Configuration:
    metadata = root.object("metadata")
    if metadata is None:
        raise root.error(" is required", "metadata")
    version = _VERSIONS.get(root.text("apiVersion", f"{GROUP}/v1"), _VERSIONS[f"{GROUP}/v1"])
    phase = _KINDS.get(root.text("kind"))
    if phase is None:
        raise root.error(f" must be one of {', '.join(_KINDS)}, not {root.text('kind')!r}", "kind")
    hooks = tuple(_webhook(each, version) for each in root.objects("webhooks"))
    return Configuration(metadata.text("name"), phase, hooks, root.where(), root.value)


def _webhook(fields: Fields, version: _Version) -> Webhook:
    criteria = match_resources_of_webhook(fields)
    if not fields.has("matchPolicy"):
        criteria = replace(criteria, match_policy=version.match_policy)
    client = fields.object("clientConfig")
    service = client.object("service") if client else None
    return Webhook(
        name=fields.text("name"),
        criteria=criteria,
        match_conditions=tuple(
            NamedExpression(each.text("name"), each.text("expression"), each.where("expression"))
            for each in fields.objects("matchConditions")
        ),
        failure_policy=FailurePolicy(fields.text("failurePolicy", version.failure_policy, FailurePolicy)),
        side_effects=fields.text("sideEffects", version.side_effects, _SIDE_EFFECTS),
        reinvocation=fields.text("reinvocationPolicy", "Never", ("Never", "IfNeeded")),
        timeout_seconds=_timeout(fields, version.timeout_seconds),
        service=(service.text("namespace"), service.text("name")) if service else None,
        source=fields.where(),
    )


def _timeout(fields: Fields, default: int) -> int:
    value = fields.value.get("timeoutSeconds")
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= TIMEOUT_SECONDS_MAX:
        raise fields.error(f" must be a whole number from 1 to {TIMEOUT_SECONDS_MAX}, not {value!r}", "timeoutSeconds")
    return value


def _validate(hook: Webhook, fields: Fields, phase: Phase, version: str) -> None:
    own = _WEBHOOK if phase is Phase.MUTATING else _WEBHOOK[:-1]
    fields.only(*own)
    if hook.name.count(".") < _NAME_LABELS_MIN - 1 or not all(hook.name.split(".")):
        raise fields.error(f" must be fully qualified, as in guard.hooks.example.com, not {hook.name!r}", "name")
    client = fields.object("clientConfig")
    if client is None or client.has("url") == client.has("service"):
        raise (client or fields).error(" must have exactly one of url and service", "" if client else "clientConfig")
    if version.endswith("/v1"):
        if hook.side_effects not in ("None", "NoneOnDryRun"):
            found = repr(hook.side_effects) if hook.side_effects else "left out"
            raise fields.error(f" must be None or NoneOnDryRun, and is {found}", "sideEffects")
        if not {"v1", "v1beta1"} & set(fields.texts("admissionReviewVersions")):
            raise fields.error(" must name v1 or v1beta1", "admissionReviewVersions")
    _rules(fields)
    _conditions(hook, fields)


def _rules(fields: Fields) -> None:
    for rule in fields.objects("rules"):
        rule.only(*_RULE)
        for name in _RULE[:-1]:
            values = rule.texts(name)
            if not values:
                raise rule.error(" must name at least one", name)
            if name != "resources" and "*" in values and len(values) > 1:
                raise rule.error(" must have no other entry next to *", name)
        for operation in rule.texts("operations"):
            if operation not in OPERATIONS:
                raise rule.error(f" must be of {', '.join(OPERATIONS)}, not {operation!r}", "operations")


def _conditions(hook: Webhook, fields: Fields) -> None:
    if len(hook.match_conditions) > MATCH_CONDITIONS_MAX:
        count = len(hook.match_conditions)
        raise fields.error(f" must have at most {MATCH_CONDITIONS_MAX} items, not {count}", "matchConditions")
    seen: set[str] = set()
    for condition, item in zip(hook.match_conditions, fields.objects("matchConditions"), strict=True):
        if not is_qualified_name(condition.name):
            raise item.error(f" must be a qualified name, not {condition.name!r}", "name")
        if condition.name in seen:
            raise item.error(f" must be unique: {condition.name!r} is there twice", "name")
        if not condition.expression.strip():
            raise item.error(" is required", "expression")
        seen.add(condition.name)
