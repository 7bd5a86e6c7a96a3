"""The facts of single files add up to those of the lake, and count only for the file of events that they were made of."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ingest.lake import Lake
from ingest.maintain import compact, remove_retired
from ingest.retention import expire_objects
from ingest.sources.files import ingest_files
from pipeline.requests.kept.facts import FileFacts, LakeFacts, facts_of
from queries import LakeReader, open_lake
from tests.recording import START, recorded

LATER_TS = START.timestamp() + 10 * 86_400


def events() -> list[dict[str, Any]]:
    """Writes of some objects, one in each minute. Two of them were refused."""
    found = []
    for number in range(20):
        obj = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": f"settings-{number % 4}", "namespace": "shop"}}
        moment = START.replace(minute=number)
        event = recorded(f"id-{number}", moment, "create" if number < 4 else "update", obj)
        if number in (7, 8):
            event["responseStatus"] = {"metadata": {}, "code": 409, "reason": "Conflict"}
        found.append(event)
    return found


def lake_of(folder: Path, files: Sequence[Sequence[dict[str, Any]]]) -> Lake:
    """A lake with one file of events for each of these lists."""
    lake = Lake.create(folder / "lake")
    for number, each in enumerate(files):
        log = folder / f"{number}.jsonl"
        log.write_text("".join(json.dumps(event) + "\n" for event in each))
        ingest_files(lake, [log], "lab", received_ts=0.0)
    return lake


def counted(reader: LakeReader) -> Counter[str]:
    """The classes as one query over the whole lake counts them."""
    return classes(reader.arrow("FROM admission_classes(NULL, NULL)").to_pylist())


def classes(rows: Sequence[dict[str, Any]]) -> Counter[str]:
    """Requests by class; rows of one class may stand in several files."""
    found: Counter[str] = Counter()
    for row in rows:
        found[repr({name: value for name, value in row.items() if name != "requests"})] += row["requests"]
    return found


def facts(lake: Lake) -> LakeFacts:
    with closing(open_lake(lake.path)) as reader:
        found = facts_of(reader)
        if found.classes is not None:
            assert classes(found.classes) == counted(reader)
        return found


def kept(lake: Lake) -> list[Path]:
    return sorted((lake.path / "derived" / "facts").iterdir())


def test_they_do_not_depend_on_the_files(tmp_path: Path) -> None:
    every = events()
    lake = lake_of(tmp_path, [every[:3], every[3:11], every[11:]])
    first = facts(lake)
    assert (first.events, len(kept(lake))) == (20, 3)
    assert facts(lake) == first
    with lake.writer() as writer:
        compact(writer, LATER_TS)
        remove_retired(writer, 2 * LATER_TS)
    merged = facts(lake)
    assert (merged.events, merged.content) == (first.events, first.content)
    assert len(kept(lake)) == 1


def test_content_differs_when_bodies_expire(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, [events()])
    before = facts(lake)
    with lake.writer() as writer:
        expire_objects(writer, START.replace(day=5).date(), LATER_TS)
    after = facts(lake)
    assert after.events == before.events
    assert after.content != before.content


def test_requests_with_stages_in_several_files_are_not_counted_by_file(tmp_path: Path) -> None:
    every = events()
    begun = {**every[5], "stage": "RequestReceived", "responseStatus": None}
    assert facts(lake_of(tmp_path, [[*every[:5], begun], every[5:]])).classes is None
    (tmp_path / "one").mkdir()
    assert facts(lake_of(tmp_path / "one", [[*every, begun]])).classes  # and they are as one query counts them


@pytest.mark.parametrize("damage", ["torn", "other code", "other size", "missing"])
def test_facts_that_do_not_count_are_made_again(tmp_path: Path, damage: str) -> None:
    lake = lake_of(tmp_path, [events()])
    first = facts(lake)
    (file,) = kept(lake)
    whole = file.read_bytes()
    made = msgspec.json.decode(whole, type=FileFacts)
    spoiled = msgspec.structs.replace(made, events=3, content=1)
    match damage:
        case "torn":
            file.write_bytes(whole[:-10])
        case "other code":
            file.write_bytes(msgspec.json.encode(msgspec.structs.replace(spoiled, code="of before")))
        case "other size":
            file.write_bytes(msgspec.json.encode(msgspec.structs.replace(spoiled, bytes=made.bytes - 1)))
        case _:
            file.unlink()
    assert facts(lake) == first
    assert file.read_bytes() == whole


def test_a_lake_that_cannot_be_written_has_facts_too(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, [events()])
    (lake.path / "derived").write_text("a file where the folder would be")
    assert facts(lake).events == 20
