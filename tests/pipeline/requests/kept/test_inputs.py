"""Replays take over the fields that policies read, where an earlier replay kept them, and find the verdicts that events give."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest.lake import Lake
from pipeline.policies.model import PolicySet
from pipeline.requests.kept import inputs
from pipeline.requests.kept.place import file_digest
from pipeline.requests.prefill import prefill
from tests.pipeline.requests.kept.test_kept import POLICIES, Cluster, arrive, cluster_of, lake_of, replay, verdicts, without_kept


def edited(limit: int) -> PolicySet:
    """The first policy alone, with another limit: it reads the same fields as before."""
    policy = POLICIES.policies[0]
    first, second = policy.validations
    changed = replace(second, expression=f"object.spec.replicas <= {limit}")
    return PolicySet((replace(policy, validations=(first, changed)),), POLICIES.bindings)


def kept_inputs(lake: Path) -> list[Path]:
    return sorted((lake / "derived" / "inputs").glob("*/*.parquet"))


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return lake_of(tmp_path)


def spoil(file: Path) -> None:
    """Let kept inputs show other replicas, under a digest that fits."""
    table = pq.read_table(file, read_dictionary=["object"], partitioning=None)
    stored = pq.read_metadata(file)
    texts = [text.replace('"replicas":', '"replicas":1') for text in table["object"].cast(pa.string()).to_pylist()]
    column = pa.array(texts, pa.string()).dictionary_encode()
    changed = table.set_column(table.schema.get_field_index("object"), "object", column)
    with pq.ParquetWriter(file, changed.schema) as writer:
        first = 0
        for number in range(stored.num_row_groups):
            writer.write_table(changed.slice(first, stored.row_group(number).num_rows))
            first += stored.row_group(number).num_rows
        writer.add_key_value_metadata({"hindcast.inputs": stored.metadata[b"hindcast.inputs"].decode()})
    file.rename(file.with_stem(f"{file.stem.partition('-')[0]}-{file_digest(file)}"))


def test_an_edited_policy_takes_over_the_inputs_of_the_one_before(lake: Lake) -> None:
    expected = without_kept(lake.path, policies=edited(3))
    without_kept(lake.path, policies=edited(6))
    kept = kept_inputs(lake.path)
    assert len(kept) == 1  # for one file of events
    found = replay(lake.path, edited(3))
    assert (found, verdicts(lake.path, found)) == expected
    assert kept_inputs(lake.path) == kept
    for file in kept:
        spoil(file)
    spoiled = replay(lake.path, edited(3))
    assert spoiled.bindings != found.bindings


@pytest.mark.parametrize("damage", ["torn", "changed", "empty"])
def test_damaged_inputs_do_not_count(lake: Lake, damage: str) -> None:
    expected = without_kept(lake.path, policies=edited(3))
    whole = {file: file.read_bytes() for file in kept_inputs(lake.path)}
    for file, content in whole.items():
        changed = bytearray(content)
        changed[len(content) // 2] ^= 1
        file.write_bytes({"torn": content[:-50], "changed": bytes(changed), "empty": b""}[damage])
    found = replay(lake.path, edited(3))
    assert (found, verdicts(lake.path, found)) == expected
    assert {file: file.read_bytes() for file in kept_inputs(lake.path)} == whole


def test_a_class_with_a_request_that_needs_its_event_is_read_from_events(tmp_path: Path) -> None:
    cluster = Cluster()
    cluster.namespace({"env": "prod"})
    for number in range(4):
        cluster.deployment("create", f"web-{number}", number, {"owner": "dana"})
    # An expression fails here, and the event shows that the body is to blame.
    cluster.events[-1]["responseObject"]["spec"]["replicas"] = "many"
    cluster.events[-1]["responseObject"]["metadata"]["finalizers"] = "none"
    *_, lake = arrive(tmp_path, [cluster.events])
    policies = PolicySet((replace(edited(3).policies[0], validations=edited(3).policies[0].validations[1:]),), POLICIES.bindings)
    expected = without_kept(lake.path, policies=policies)
    assert kept_inputs(lake.path)
    found = replay(lake.path, policies)
    assert (found, verdicts(lake.path, found)) == expected
    assert found.evaluated + sum(count for _, count in found.not_evaluated) == found.planned


def narrower() -> PolicySet:
    """The first policy with its first expression alone: it reads fewer fields."""
    policy = POLICIES.policies[0]
    return PolicySet((replace(policy, validations=policy.validations[:1]),), POLICIES.bindings)


def test_a_policy_that_reads_fewer_fields_takes_over_inputs_too(lake: Lake) -> None:
    expected = without_kept(lake.path, policies=narrower())
    without_kept(lake.path, policies=edited(3))
    kept = kept_inputs(lake.path)
    found = replay(lake.path, narrower())
    assert (found, verdicts(lake.path, found)) == expected
    assert kept_inputs(lake.path) == kept


def test_a_policy_that_reads_more_fields_keeps_inputs_of_its_own(lake: Lake) -> None:
    expected = without_kept(lake.path, policies=edited(3))
    without_kept(lake.path, policies=narrower())
    kept = kept_inputs(lake.path)
    found = replay(lake.path, edited(3))
    assert (found, verdicts(lake.path, found)) == expected
    assert kept_inputs(lake.path) != kept  # those of before take too much room in so small a lake


def test_a_new_file_of_events_leaves_the_inputs_of_others(tmp_path: Path) -> None:
    events = cluster_of(5).events
    lakes = arrive(tmp_path, [events[:15], events[15:]])
    replay(next(lakes).path, edited(3))
    kept = kept_inputs(tmp_path / "lake")
    lake = next(lakes)
    found = replay(lake.path, edited(3))
    assert set(kept) < set(kept_inputs(lake.path))
    assert without_kept(lake.path, policies=edited(3)) == (found, verdicts(lake.path, found))


def test_inputs_that_are_too_large_beside_the_events_make_room(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    without_kept(lake.path, policies=narrower())
    before = kept_inputs(lake.path)
    assert before
    monkeypatch.setattr(inputs, "_SHARE_MAX", 0.0)
    replay(lake.path, edited(3))
    assert not set(before) & set(kept_inputs(lake.path))


def named() -> PolicySet:
    """A policy that reads the name of the object, and the options of the request."""
    policy = POLICIES.policies[0]
    expression = replace(policy.validations[0], expression="object.metadata.name != 'web-1' && !request.dryRun")
    return PolicySet((replace(policy, validations=(expression,)),), POLICIES.bindings)


def test_the_name_of_an_object_is_kept_apart_from_the_fields_that_objects_share(lake: Lake) -> None:
    expected = without_kept(lake.path, policies=named())
    shutil.rmtree(lake.path / "derived")
    prefill(lake.path)
    (file,) = kept_inputs(lake.path)
    found = replay(lake.path, named())
    assert (found, verdicts(lake.path, found)) == expected
    assert sum(binding.deny for binding in found.bindings)
    assert kept_inputs(lake.path) == [file]  # nothing had to be added
    table = pq.read_table(file, partitioning=None)
    assert {"web-0", "web-1"} <= set(table[inputs.NAME].to_pylist())
    assert not any('"name":"web-' in text for text in table["object"].cast(pa.string()).to_pylist())


def test_a_process_holds_the_inputs_that_it_has_read_within_a_bound(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    replay(lake.path)
    (file,) = kept_inputs(lake.path)
    pieces = [inputs.Piece(str(file), (0,))]
    table = inputs.read_inputs(pieces, ["name"])
    assert inputs.read_inputs(pieces, ["name"]) is table
    monkeypatch.setattr(inputs, "_HELD_BYTES_MAX", table.nbytes)
    assert inputs.read_inputs(pieces, ["user_name"]).num_rows
    again = inputs.read_inputs(pieces, ["name"])
    assert again is not table
    assert again.equals(table)
