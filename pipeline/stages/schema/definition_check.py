"""What the API server says of a definition that is created: nothing, or the field errors with which it refuses it.

Follows ValidateCustomResourceDefinition of apiextensions-apiserver pkg/apis/apiextensions/validation/validation.go, after the
defaults and the conversion of v1. Fields that all versions share are reported at the top, as
`spec.validation`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from ...cel.library.formats import dns_1035_label, dns_subdomain
from ...cel.minors import DEFAULT
from .default_check import default_errors
from .definition import Definition, ScalePaths, Version
from .field_errors import (
    FieldError,
    GoText,
    child,
    forbidden,
    go_json,
    index,
    invalid,
    joined,
    required,
)
from .formats import Version as KubernetesVersion
from .go_struct import schema_fields, schema_struct
from .keywords import TotalCost, keyword_errors
from .props import Props
from .rules import NOTHING_STORED, Server, StoredRules
from .structural import NotConvertibleError, convertible, incomplete_within, structural_errors
from .version_check import column_errors, deprecation_errors, one_of, scale_errors, selectable_errors

_AT_ROOT: Final = (
    "Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength MinLength Pattern MaxItems MinItems "
    "UniqueItems MultipleOf Required Items Properties ExternalDocs Example XPreserveUnknownFields XValidations"
)
_APPROVAL: Final = "api-approved.kubernetes.io"
_PRESERVE: Final = "spec.preserveUnknownFields"


def definition_errors(
    definition: Definition, kubernetes_version: KubernetesVersion = DEFAULT, stored: StoredRules | None = NOTHING_STORED
) -> list[FieldError]:
    """The field errors of a definition that is written; empty if the API server takes it. Rules that it has `stored` are old."""
    server = Server(kubernetes_version, stored)
    found = [*_metadata(definition), *_spec(definition, server), *_stored_versions(definition), *_approval(definition)]
    if definition.preserves_unknown_fields:
        detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        found.append(invalid(_PRESERVE, True, detail))
    return found


def _metadata(definition: Definition) -> Iterator[FieldError]:
    if not definition.name:
        yield required("metadata.name", "name or generateName is required")
        return
    for problem in dns_subdomain(definition.name):
        yield invalid("metadata.name", definition.name, problem)
    if definition.name != f"{definition.plural}.{definition.group}":
        yield invalid("metadata.name", definition.name, 'must be spec.names.plural+"."+spec.group')


def _spec(definition: Definition, server: Server) -> Iterator[FieldError]:
    if not definition.group:
        yield required("spec.group")
    elif problems := dns_subdomain(definition.group):
        yield invalid("spec.group", definition.group, ",".join(problems))
    elif "." not in definition.group:
        yield invalid("spec.group", definition.group, "should be a domain with at least one dot")
    yield from one_of("spec.scope", definition.scope, ("Cluster", "Namespaced"))
    versions = definition.versions
    shares = _Shared(definition)
    if shares.schema is None:
        for number, each in enumerate(versions):
            if each.schema is None:
                yield required(f"spec.versions[{number}].schema.openAPIV3Schema")
    if definition.preserves_unknown_fields and any(
        node.has_default for each in versions if each.schema for node in each.schema.nodes()
    ):
        yield invalid(_PRESERVE, True, "must be false in order to use defaults in the schema")
    for number, each in enumerate(versions):
        yield from _version(each, f"spec.versions[{number}]", shares, server)
    yield from _version_set(definition, shares)
    yield from _names(definition)
    if shares.schema is not None:
        has_status = any(each.has_status for each in versions)
        yield from schema_errors(shares.schema, "spec.validation", has_status, server)
    if shares.subresources is not None:
        yield from scale_errors(shares.subresources.scale, "spec.subresources")
    for number, column in enumerate(shares.columns or ()):
        yield from column_errors(column, index("spec.additionalPrinterColumns", number))
    if shares.selectable_fields:
        yield from selectable_errors(shares.selectable_fields, shares.schema, "spec", "spec")
    yield from _conversion(definition.conversion)


class _Shared:
    """The fields that are the same in all versions, which the API server moves to the top."""

    def __init__(self, definition: Definition) -> None:
        versions = definition.versions
        first = versions[0] if versions else None
        same = first is not None
        self.schema = first.schema if same and first and all(each.schema == first.schema for each in versions) else None
        shares_subresources = (
            first is not None and first.has_subresources and all(_subresources(each) == _subresources(first) for each in versions)
        )
        self.subresources = first if shares_subresources else None
        self.columns = first.columns if first is not None and all(each.columns == first.columns for each in versions) else None
        fields = first is not None and all(each.selectable_fields == first.selectable_fields for each in versions)
        self.selectable_fields = first.selectable_fields if fields and first is not None else ()


def _subresources(version: Version) -> tuple[bool, bool, ScalePaths | None]:
    return version.has_subresources, version.has_status, version.scale


def _version(version: Version, path: str, shares: _Shared, server: Server) -> Iterator[FieldError]:
    if problems := dns_1035_label(version.name):
        yield invalid(child(path, "name"), version.name, ",".join(problems))
    warning = version.deprecation_warning
    if warning is not None:
        yield from deprecation_errors(version.deprecated, warning, child(path, "deprecationWarning"))
    if version.schema is not None and shares.schema is None:
        yield from schema_errors(version.schema, child(path, "schema"), version.has_status, server)
    if shares.subresources is None:
        yield from scale_errors(version.scale, child(path, "subresources"))
    if shares.columns is None:
        for number, column in enumerate(version.columns):
            yield from column_errors(column, index(child(path, "additionalPrinterColumns"), number))
    if version.selectable_fields and not shares.selectable_fields:
        if shares.schema is not None or version.schema is None:
            detail = "may only be set when `version.schema.openAPIV3Schema` is not included"
            yield invalid(child(path, "selectableFields"), "", detail)
        else:
            yield from selectable_errors(version.selectable_fields, version.schema, path, path)


def schema_errors(schema: Props, path: str, has_status: bool, server: Server) -> list[FieldError]:
    """The errors of one schema: its root, its structure, its defaults, its keywords and its rules."""
    where = child(path, "openAPIV3Schema")
    found = list(_root(schema, where, has_status)) if has_status else []
    if schema.nullable:
        found.append(forbidden(child(where, "nullable"), "nullable cannot be true at the root"))
    total: TotalCost | None = None
    problems: list[FieldError] = []
    try:
        convertible(schema)
    except NotConvertibleError as problem:
        problems.append(invalid(where, "", str(problem)))
    else:
        errors = structural_errors(schema, where) or default_errors(schema, where, server.version)
        found += errors
        total = None if errors else TotalCost()
    found += keyword_errors(schema, where, server, total)
    # The errors of the conversion repeat those of the keywords.
    found = found or problems
    return found if total is None else [*found, *total.errors(where)]


def _root(schema: Props, path: str, has_status: bool) -> Iterator[FieldError]:
    """With a status subresource, the root may only have keywords that say nothing of fields other than status."""
    allowed = _AT_ROOT.split()
    for name, _, is_set in schema_fields(schema):
        if not is_set:
            continue
        if name == "Type" and schema.type != "object":
            detail = 'only "object" is allowed as the type at the root of the schema if the status subresource is enabled'
            yield invalid(child(path, "type"), schema.type, detail)
            return
        if name not in allowed:
            detail = f"only [{_AT_ROOT}] fields are allowed at the root of the schema if the status subresource is enabled"
            yield invalid(path, GoText(schema_struct(schema)), detail)
            return


def _version_set(definition: Definition, shares: _Shared) -> Iterator[FieldError]:
    versions = definition.versions
    shown = GoText(f"[{','.join(_version_struct(each, shares) for each in versions)}]" if versions else "null")
    names = [each.name for each in versions]
    if len(set(names)) < len(names):
        yield invalid("spec.versions", shown, "must contain unique version names")
    if sum(each.storage for each in versions) != 1:
        yield invalid("spec.versions", shown, "must have exactly one version marked as storage version")
    if names and (problems := dns_1035_label(names[0])) and names[0]:
        yield invalid("spec.version", names[0], ",".join(problems))


def _version_struct(version: Version, shares: _Shared) -> str:
    schema = (
        "null" if version.schema is None or shares.schema is not None else f'{{"OpenAPIV3Schema":{schema_struct(version.schema)}}}'
    )
    fields = {
        "Name": go_json(version.name),
        "Served": go_json(version.served),
        "Storage": go_json(version.storage),
        "Deprecated": go_json(version.deprecated),
        "DeprecationWarning": go_json(version.deprecation_warning),
        "Schema": schema,
        "Subresources": "null",
        "AdditionalPrinterColumns": "null",
        "SelectableFields": "null",
    }
    return "{" + ",".join(f'"{name}":{text}' for name, text in fields.items()) + "}"


def _names(definition: Definition) -> Iterator[FieldError]:
    required_names = {
        "plural": definition.plural,
        "singular": definition.singular,
        "kind": definition.kind,
        "listKind": definition.list_kind,
    }
    for name, value in required_names.items():
        if not value:
            yield required(child("spec.names", name))
    for name, value in required_names.items():
        is_kind = name in ("kind", "listKind")
        problems = dns_1035_label(value.lower() if is_kind else value) if value else []
        if problems:
            prefix = "may have mixed case, but should otherwise match: " if is_kind else ""
            yield invalid(child("spec.names", name), value, prefix + ",".join(problems))
    for field, values in (("shortNames", definition.short_names), ("categories", definition.categories)):
        for number, value in enumerate(values):
            if problems := dns_1035_label(value):
                yield invalid(index(child("spec.names", field), number), value, ",".join(problems))
    if definition.kind and definition.kind == definition.list_kind:
        yield invalid("spec.names.listKind", definition.list_kind, "kind and listKind may not be the same")


def _conversion(conversion: Mapping[str, Any]) -> Iterator[FieldError]:
    if not conversion:
        return
    path = "spec.conversion"
    strategy, webhook = conversion.get("strategy") or "", conversion.get("webhook") or {}
    yield from one_of(child(path, "strategy"), strategy, ("None", "Webhook"))
    config, versions = webhook.get("clientConfig"), webhook.get("conversionReviewVersions") or []
    if strategy != "Webhook":
        detail = "should not be set when strategy is not set to Webhook"
        if config is not None:
            yield forbidden(child(path, "webhookClientConfig"), detail)
        if versions:
            yield forbidden(child(path, "conversionReviewVersions"), detail)
        return
    if config is None:
        yield required(child(path, "webhookClientConfig"), "required when strategy is set to Webhook")
    elif (config.get("url") is None) == (config.get("service") is None):
        yield required(child(path, "webhookClientConfig"), "exactly one of url or service is required")
    if not versions:
        yield required(child(path, "conversionReviewVersions"))
    elif not {"v1", "v1beta1"} & set(versions):
        yield invalid(child(path, "conversionReviewVersions"), versions, "must include at least one of v1, v1beta1")


def _stored_versions(definition: Definition) -> Iterator[FieldError]:
    stored = definition.storage_version
    if stored is None:
        yield invalid("status.storedVersions", None, "must have at least one stored version")
    for each in definition.versions:
        if stored is not None and each.storage and each.name != stored.name:
            yield invalid("status.storedVersions", [stored.name], f"must have the storage version {each.name}")


def _approval(definition: Definition) -> Iterator[FieldError]:
    """Groups of the community need the place of their approval."""
    if not definition.group.endswith(("k8s.io", "kubernetes.io")):
        return
    group = f".{definition.group}"
    if not group.endswith((".k8s.io", ".kubernetes.io")):
        return
    path, value = f"metadata.annotations[{_APPROVAL}]", definition.annotations.get(_APPROVAL, "")
    wanted = f'protected groups must have approval annotation "{_APPROVAL}"'
    url = "https://github.com/kubernetes/enhancements/pull/1111"
    if not value:
        yield required(path, f"{wanted}, see {url}")
    elif not value.startswith(("unapproved", "http")):
        yield invalid(path, value, f'{wanted} with either a URL or a reason starting with "unapproved", see {url}')


def non_structural_errors(definition: Definition) -> list[FieldError]:
    """The violations of a stored definition, in the order of its condition. Raises NotConvertibleError.

    The path always names the version here (apiextensions-apiserver pkg/controller/nonstructuralschema).
    """
    found = [invalid(_PRESERVE, True, "must be false")] if definition.preserves_unknown_fields else []
    for number, each in enumerate(definition.versions):
        if each.schema is None:
            continue
        try:
            convertible(each.schema)
        except NotConvertibleError as problem:
            text = f"failed to check validation schema for version {each.name}: {problem}"
            raise NotConvertibleError(text) from None
        found += structural_errors(each.schema, f"spec.versions[{number}].schema.openAPIV3Schema")
    return found


def v1beta1_errors(definition: Definition) -> list[FieldError]:
    """What is wrong with a v1beta1 file: the version itself comes first, then what is not structural. Raises NotConvertibleError.

    In v1beta1 `preserveUnknownFields` is true by default, so it is no error of the file: it tells what a v1 file must say instead.
    """
    text = (
        "no API server from Kubernetes 1.22 on serves apiextensions.k8s.io/v1beta1; write the definition as apiextensions.k8s.io/v1"
    )
    if definition.preserves_unknown_fields:
        text += (
            ", which has no spec.preserveUnknownFields: true (the default of v1beta1): "
            "set x-kubernetes-preserve-unknown-fields in the schemas that shall keep unknown fields"
        )
    return [
        FieldError("NotFound", "apiVersion", text),
        *(each for each in non_structural_errors(definition) if each.field != _PRESERVE),
    ]


def non_structural_condition(definition: Definition) -> tuple[str, str, str] | None:
    """The status, reason and message of the NonStructuralSchema condition of a stored definition; None without one."""
    try:
        found = non_structural_errors(definition)
    except NotConvertibleError as problem:
        return "Unknown", "StructuralError", str(problem)
    return ("True", "Violations", joined(found)) if found else None


def stricter_errors(definition: Definition) -> list[FieldError]:
    """What the design of structural schemas asks beyond the API server's check: no undeclared field below any junctor."""
    found: list[FieldError] = []
    for number, each in enumerate(definition.versions):
        if each.schema is not None:
            found += incomplete_within(each.schema, f"spec.versions[{number}].schema.openAPIV3Schema")
    return found
