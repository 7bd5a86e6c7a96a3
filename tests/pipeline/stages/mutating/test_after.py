"""Fields that a later stage may refuse as a mutation leaves them: tests/cases/mutating/after.yaml."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from pipeline.request import AdmissionRequest, GroupVersionKind, GroupVersionResource, Known, Operation, Unknown, UserInfo
from pipeline.stages.mutating.afterwards import of_fields
from pipeline.stages.mutating.kinds import KnownKind
from pipeline.stages.mutating.shapes import metadata_shape
from tests.yaml_text import load_yaml

CASES: list[dict[str, Any]] = load_yaml((Path(__file__).parents[3] / "cases" / "mutating" / "after.yaml").read_text())
KIND = KnownKind(GroupVersionKind("", "v1", "Any"), metadata_shape())


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_a_field_that_may_be_refused_is_named(case: dict[str, Any]) -> None:
    group, resource = case["resource"]
    old = case.get("old", {})
    request = AdmissionRequest(
        cluster="lab",
        audit_id="1",
        pass_index=0,
        ts=datetime(2026, 11, 28, tzinfo=UTC),
        operation=Operation.UPDATE if "old" in case else Operation.CREATE,
        kind=Known(KIND.kind, "case"),
        resource=GroupVersionResource("" if group == "core" else group, "v1", resource),
        subresource=case.get("subresource", ""),
        namespace="shop",
        name=Known("a", "case"),
        user=UserInfo("ada"),
        dry_run=False,
        options=Unknown("case"),
        object=Known(case["after"], "case"),
        old_object=Unknown("case") if old is None else Known(old or None, "case"),
    )
    assert [each.path for each in of_fields(request, case["before"], case["after"], KIND)] == case["doubts"]
