"""Policies that ask for too much, each in a process of its own with little memory and time: `python -m tests.bombs`.

Reads one case of tests/cases/cel/bombs.yaml a line, as JSON, and writes what came of it a line: decisions and messages by
validation, or how the process ended. A bomb that goes off again ends a child of this process and nothing else.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pipeline.policies.dispatch import compile_set, evaluate_request
from pipeline.policies.refusing import refused_expressions
from pipeline.request import (
    AdmissionRequest,
    Evidence,
    GroupVersionKind,
    GroupVersionResource,
    Known,
    Object,
    Operation,
    Unknown,
    UserInfo,
)
from pipeline.stages.validating.load import parse_policy_set

# In addition to what the process has when it starts.
MEMORY_BYTES = 640 * 1024 * 1024
PROCESSOR_SECONDS = 20
_TOLD = 200
_RULES = {"resourceRules": [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}]}
_TIERS = ("evaluate", "evaluate_exactly", "evaluate_with_cost")


class Nothing:
    """A world without namespaces and params."""

    def namespace(self, name: str) -> Evidence[Object | None]:
        return Unknown("none")

    def param(self, api_version: str, kind: str, namespace: str, name: str) -> Evidence[Object | None]:
        return Unknown("none")

    def params(self, api_version: str, kind: str, namespace: str) -> Evidence[list[Object]]:
        return Unknown("none")

    def kind_is_namespaced(self, api_version: str, kind: str) -> Evidence[bool | None]:
        return Unknown("none")


def written(value: Any) -> Any:
    """A value with its long texts and lists written out.

    `{$join: text, times: n, with: between}` is the text n times, with its number for `{n}` and the number before for `{before}`
    (`_1` at the beginning);
    `{$times: value, times: n}` a list of the value n times, written out in the same way.
    """
    if isinstance(value, dict):
        if "$join" in value:
            middle = value.get("with", "").join(_numbered(value["$join"], n) for n in range(value["times"]))
            return value.get("first", "") + middle + written(value.get("then", ""))
        if "$times" in value:
            return [_numbered(written(value["$times"]), n) for n in range(value["times"])]
        return {key: written(item) for key, item in value.items()}
    return [written(item) for item in value] if isinstance(value, list) else value


def _numbered(value: Any, number: int) -> Any:
    if isinstance(value, str):
        return value.replace("{n}", str(number)).replace("{before}", str(number - 1) if number else "_1")
    if isinstance(value, dict):
        return {key: _numbered(item, number) for key, item in value.items()}
    return [_numbered(item, number) for item in value] if isinstance(value, list) else value


def policy(case: dict[str, Any]) -> str:
    """The case's policy with its binding, as JSON manifests."""
    spec: dict[str, Any] = {"matchConstraints": _RULES}
    for field in ("variables", "validations", "matchConditions", "auditAnnotations"):
        if field in case:
            parts = case[field] if isinstance(case[field], list) else [case[field]]
            # What is repeated becomes many, and stands in line with what is not.
            spec[field] = [each for part in map(written, parts) for each in (part if isinstance(part, list) else [part])]
    api = "admissionregistration.k8s.io/v1"
    manifests = [
        {"apiVersion": api, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "bomb"}, "spec": spec},
        {
            "apiVersion": api,
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": "bomb"},
            "spec": {"policyName": "bomb", "validationActions": ["Deny"]},
        },
    ]
    return "---\n".join(json.dumps(each) + "\n" for each in manifests)


def request(value: Any) -> AdmissionRequest:
    """A Pod that is created, with this object."""
    return AdmissionRequest(
        cluster="case",
        audit_id="case",
        pass_index=0,
        ts=datetime(2026, 11, 21, tzinfo=UTC),
        operation=Operation.CREATE,
        kind=Known(GroupVersionKind("", "v1", "Pod"), "case"),
        resource=GroupVersionResource("", "v1", "pods"),
        subresource="",
        namespace="",
        name=Known("name-of-a-pod", "case"),
        user=UserInfo("user", "", (), {}),
        dry_run=False,
        options=Known(None, "case"),
        object=Known(value, "case"),
        old_object=Known(None, "case"),
    )


def outcome(case: dict[str, Any]) -> list[str]:
    """Of each row the decision and the message, one text each; or what an API server would refuse."""
    value = written(case.get("object", {"metadata": {"name": "name-of-a-pod"}}))
    policies = parse_policy_set([("bomb.yaml", policy(case))])
    refused = [each.error for found in policies.policies for each in refused_expressions(found, (1, 36))]
    if refused:
        return [f"refused: {refused[0]}"]
    compiled = compile_set(policies, (1, 36))
    if case.get("tiers", "variables" not in case):
        for validation in compiled.policies[0].validations:
            for tier in _TIERS:
                getattr(validation.expression.program, tier)({"object": value, "oldObject": None, "request": {}})
    rows = evaluate_request(compiled, request(value), Nothing())
    return [
        f"{row.decision} {row.message or row.why}".strip() for row in rows if row.expression_index is not None or len(rows) == 1
    ]


def main() -> int:
    """Answer line by line; a bomb is handed to a child."""
    for line in sys.stdin:
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            os.close(reading)
            _run(json.loads(line), writing)
        os.close(writing)
        with os.fdopen(reading) as pipe:
            told = pipe.read()
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        print(told if told and code == 0 else json.dumps([f"died with {code}"]), flush=True)
    return 0


def _shortened(text: str) -> str:
    return text if len(text) <= _TOLD else f"{text[: _TOLD // 2]} ... {text[-_TOLD // 2 :]}"


def _run(case: dict[str, Any], writing: int) -> None:
    used = int(Path("/proc/self/statm").read_text().split()[5]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_DATA, (used + MEMORY_BYTES,) * 2)
    resource.setrlimit(resource.RLIMIT_CPU, (PROCESSOR_SECONDS,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        found = outcome(case)
    except BaseException as problem:
        found = [f"raised {problem.__class__.__name__}: {str(problem)[:200]}"]
    with os.fdopen(writing, "w") as pipe:
        pipe.write(
            json.dumps([each if len(each) <= _TOLD else f"{each[: _TOLD // 2]} ... {each[-_TOLD // 2 :]}" for each in found])
        )
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
