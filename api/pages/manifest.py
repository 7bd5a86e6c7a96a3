"""A policy as a user wrote it: its manifest, made from the plan, and the lines of each of its expressions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

_GROUP_VERSION = "admissionregistration.k8s.io/v1"
_MATCH = (
    ("resource_rules", "resourceRules"),
    ("exclude_resource_rules", "excludeResourceRules"),
    ("namespace_selector", "namespaceSelector"),
    ("object_selector", "objectSelector"),
    ("match_policy", "matchPolicy"),
)
_RULE = (
    ("api_groups", "apiGroups"),
    ("api_versions", "apiVersions"),
    ("operations", "operations"),
    ("resources", "resources"),
    ("scope", "scope"),
    ("resource_names", "resourceNames"),
)
_VALIDATION = (
    ("expression", "expression"),
    ("message", "message"),
    ("message_expression", "messageExpression"),
    ("reason", "reason"),
)
_WIDTH = 100
_FOLDED_CHARACTERS = 80


@dataclass(frozen=True, slots=True)
class SourceLine:
    """One line of a manifest. `validation` is the index of the validation that it belongs to; None outside of them."""

    number: int
    text: str
    validation: int | None


def policy_manifest(policy: Mapping[str, Any]) -> dict[str, Any]:
    """The ValidatingAdmissionPolicy in a plan's document, with the applied defaults."""
    spec: dict[str, Any] = {"failurePolicy": policy["failure_policy"]}
    if policy["param_kind"]:
        spec["paramKind"] = {"apiVersion": policy["param_kind"]["api_version"], "kind": policy["param_kind"]["kind"]}
    if policy["match_constraints"]:
        spec["matchConstraints"] = _match(policy["match_constraints"])
    for field, key in (("match_conditions", "matchConditions"), ("variables", "variables")):
        if policy[field]:
            spec[key] = [{"name": item["name"], "expression": item["expression"]} for item in policy[field]]
    if policy["validations"]:
        spec["validations"] = [_renamed(item, _VALIDATION) for item in policy["validations"]]
    if policy["audit_annotations"]:
        spec["auditAnnotations"] = [
            {"key": item["name"], "valueExpression": item["expression"]} for item in policy["audit_annotations"]
        ]
    return _manifest("ValidatingAdmissionPolicy", policy["name"], spec)


def binding_manifest(binding: Mapping[str, Any]) -> dict[str, Any]:
    """The ValidatingAdmissionPolicyBinding in a plan's document."""
    spec: dict[str, Any] = {"policyName": binding["policy_name"]}
    if binding["param_ref"]:
        param = binding["param_ref"]
        spec["paramRef"] = _renamed(param, (("name", "name"), ("namespace", "namespace")))
        if param["selector"] is not None:
            spec["paramRef"]["selector"] = _selector(param["selector"])
        if param["not_found_action"]:
            spec["paramRef"]["parameterNotFoundAction"] = param["not_found_action"]
    if binding["match_resources"]:
        spec["matchResources"] = _match(binding["match_resources"])
    spec["validationActions"] = list(binding["validation_actions"])
    return _manifest("ValidatingAdmissionPolicyBinding", binding["name"], spec)


def manifests_text(manifests: Iterable[Mapping[str, Any]]) -> str:
    """Manifests as one YAML text, as a user writes it."""
    return "---\n".join(_yaml(manifest) for manifest in manifests)


def _yaml(manifest: Mapping[str, Any]) -> str:
    return yaml.dump(manifest, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=_WIDTH)


def source_lines(manifest: Mapping[str, Any]) -> tuple[SourceLine, ...]:
    """A manifest as YAML, line by line, with the validation that each line belongs to."""
    text = _yaml(manifest)
    owner: dict[int, int] = {}
    for index, node in enumerate(_validations(yaml.compose(text, Loader=yaml.SafeLoader))):
        # The parser reports the end of a block at the beginning of the next token.
        last = node.end_mark.line if node.end_mark.column == 0 else node.end_mark.line + 1
        end = max(last, node.start_mark.line + 1)
        owner.update(dict.fromkeys(range(node.start_mark.line, end), index))
    lines = text.rstrip("\n").split("\n")
    return tuple(SourceLine(number + 1, line, owner.get(number)) for number, line in enumerate(lines))


class _Dumper(yaml.SafeDumper):
    """YAML as users write policies: expressions as blocks without doubled quotes, short lists on one line."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.Node:
    style = None
    if "\n" in value.strip():
        style = "|"
    elif len(value) > _FOLDED_CHARACTERS or ("'" in value and not value[0].isalpha()):
        style = ">"
    return dumper.represent_scalar("tag:yaml.org,2002:str", str(value), style=style)


def _list(dumper: yaml.SafeDumper, value: list[Any]) -> yaml.Node:
    return dumper.represent_sequence("tag:yaml.org,2002:seq", value, flow_style=all(isinstance(item, str) for item in value))


_Dumper.add_multi_representer(str, _text)
_Dumper.add_representer(str, _text)
_Dumper.add_representer(list, _list)


def _validations(root: yaml.Node | None) -> Iterator[yaml.Node]:
    node = root
    for key in ("spec", "validations"):
        pairs = node.value if isinstance(node, yaml.MappingNode) else ()
        node = next((value for name, value in pairs if name.value == key), None)
    yield from node.value if isinstance(node, yaml.SequenceNode) else ()


def _manifest(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": _GROUP_VERSION, "kind": kind, "metadata": {"name": name}, "spec": spec}


def _match(match: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for field, key in _MATCH:
        value = match[field]
        if field.endswith("_rules"):
            value = [_renamed(rule, _RULE) for rule in value]
        elif field.endswith("_selector"):
            # A selector without requirements selects everything, just like a missing selector.
            value = _selector(value) if value and value["requirements"] else None
        if value:
            found[key] = value
    return found


def _selector(selector: Mapping[str, Any]) -> dict[str, Any]:
    expressions = [
        {"key": item["key"], "operator": item["operator"], **({"values": list(item["values"])} if item["values"] else {})}
        for item in selector["requirements"]
    ]
    return {"matchExpressions": expressions} if expressions else {}


def _renamed(value: Mapping[str, Any], names: tuple[tuple[str, str], ...]) -> dict[str, Any]:
    found = ((key, value.get(field)) for field, key in names)
    return {key: list(item) if isinstance(item, tuple) else item for key, item in found if item}
