"""Definitions of public projects: an API server accepts them, so they must compile, and objects of them validate without a defect.

HINDCAST_DEFINITIONS names a folder with more definitions and objects than the corpora have.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest
import yaml

from ingest.errors import InputError
from pipeline.manifests.documents import Document
from pipeline.manifests.files import manifests_of, texts_of
from pipeline.stages.schema.checking import check_definitions, definition_documents
from pipeline.stages.schema.objects import Outcome, object_findings

pytestmark = pytest.mark.conformance
VERSION = (1, 36)


def documents(folder: Path) -> list[Document]:
    """The objects of every file of a folder that is YAML or JSON."""
    found: list[Document] = []
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".yaml", ".yml", ".json"):
            try:
                found += manifests_of(texts_of([path]))
            except (InputError, yaml.YAMLError):
                continue  # Templates, and documents that are no manifests.
    return found


def test_public_definitions_and_their_objects(shared: Path) -> None:
    folders = [shared / "corpora" / "kubescape-cel-admission-library"]
    if more := os.environ.get("HINDCAST_DEFINITIONS"):
        folders.append(Path(more))
    for folder in folders:
        given = documents(folder)
        # A file of v1beta1 cannot be applied any more, so that nothing says that it is right.
        definitions = [each for each in definition_documents(given) if each.value["apiVersion"].endswith("/v1")]
        refused = [
            f"{each.where} {each.definition}: {each.field}: {each.message}" for each in check_definitions(definitions, VERSION)
        ]
        outcomes: Counter[Outcome] = Counter()
        objects: Counter[str] = Counter()
        for finding in object_findings(given, VERSION):
            outcomes[finding.outcome] += 1
            objects[finding.where.rpartition(":")[0] + finding.object] += finding.outcome is Outcome.REFUSED
        valid = sum(not errors for errors in objects.values())
        print(f"{folder.name}: {len(definitions)} definitions; {len(objects)} objects, {valid} of them valid; {dict(outcomes)}")
        assert definitions
        assert not refused
