"""A definition that drops a stored version, in the words of the API server (crossplane#2864)."""

from __future__ import annotations

from typing import Any

import pytest

from pipeline.stages.schema.definition import definition_of
from pipeline.stages.schema.stored_names import dropped_errors


def definition(*versions: str, stored: Any = None, group: str = "farm.example") -> dict[str, Any]:
    named = [{"name": name, "served": True, "storage": name == versions[-1]} for name in versions]
    names = {"kind": "Press", "plural": "presses"}
    status = {} if stored is None else {"status": {"storedVersions": stored}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"presses.{group}"},
        "spec": {"group": group, "names": names, "scope": "Namespaced", "versions": named},
        **status,
    }


@pytest.mark.parametrize(
    ("new", "old", "errors"),
    [
        (
            definition("v1"),
            definition("v1alpha1", stored=["v1alpha1"]),
            ['status.storedVersions[0]: Invalid value: "v1alpha1": must appear in spec.versions'],
        ),
        (
            definition("v1"),
            definition("v1beta1", "v1", stored=["v1", "v1beta1"]),
            ['status.storedVersions[1]: Invalid value: "v1beta1": must appear in spec.versions'],
        ),
        # Somebody wrote all objects again, and took the name out of the status.
        (definition("v1"), definition("v1beta1", "v1", stored=["v1"]), []),
        (definition("v1beta1", "v1"), definition("v1beta1", stored=["v1beta1"]), []),
        # A file of the old definition may lack its status: what it stores as is stored.
        (
            definition("v1"),
            definition("v1beta1"),
            ['status.storedVersions[0]: Invalid value: "v1beta1": must appear in spec.versions'],
        ),
        (definition("v1"), definition("v1", stored=[3, None]), []),
        (definition("v1"), definition("v1beta1", stored=["v1beta1"], group="other.example"), []),
    ],
)
def test_a_stored_version_may_not_be_dropped(new: dict[str, Any], old: dict[str, Any], errors: list[str]) -> None:
    assert [str(each) for each in dropped_errors(definition_of(new), [definition_of(old)])] == errors
