"""Unknown fields in patches and refusals, against what a real API server said of the same requests in a Warning or an error."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from ingest.lake import Lake
from ingest.sources.files import ingest_files
from pipeline.history.event import Event
from pipeline.manifests.files import manifests_of, texts_of
from pipeline.stages.schema.checking import definition_documents
from pipeline.stages.schema.evidence.definitions import given_definitions
from pipeline.stages.schema.evidence.paths import text_of
from pipeline.stages.schema.evidence.recorded import recorded
from pipeline.stages.schema.evidence.sent import OWN_BODIES, sent_fields
from queries import open_lake
from tests.conformance.test_schema_objects import rows

pytestmark = pytest.mark.conformance
NAMED = re.compile(r'unknown field "((?:[^"\\]|\\.)*)"')


def test_fields_that_requests_sent(shared: Path, tmp_path: Path) -> None:
    """Compared are strict refusals, and merge and JSON patches that the server answered with a Warning."""
    story = shared / "data" / "crd-a" / "schema-change"
    truth = {row["auditID"]: row for row in rows(story / "truth.jsonl.zst")}
    lake = Lake.create(tmp_path / "lake")
    ingest_files(lake, [story / "audit.jsonl.zst"], "lab", received_ts=0.0)
    lake.close()
    reader = open_lake(tmp_path / "lake")
    counts: Counter[str] = Counter()
    for known in given_definitions(definition_documents(manifests_of(texts_of([story / "crds" / "old.json"])))):
        for event in recorded(reader, known.definition, None):
            if not isinstance(event, Event) or event.audit_id not in truth or event.subresource not in OWN_BODIES:
                continue
            answer = truth[event.audit_id]["old"]
            _, _, refused = answer.get("message", "").rpartition("strict decoding error: ")
            said = set(NAMED.findall(refused)) | set(NAMED.findall(" ".join(answer.get("warnings", ())).replace('\\"', '"')))
            is_shown = event.verb == "patch" or event.code == 400
            if not said or not is_shown:
                continue
            sent = {
                text_of(each.path)
                for each in sent_fields(event, known.schema_of(f"{event.resource.group}/{event.resource.version}"))
            }
            # A Warning names unknown metadata as well, which no schema of a definition is about.
            assert sent == (said if event.code >= 400 else {each for each in said if ".metadata." not in each}), event.audit_id
            counts[f"{event.verb} {event.code}"] += 1
    reader.close()
    print(dict(counts))
    assert counts == {"create 400": 63, "patch 200": 117, "patch 422": 27, "update 400": 11}
