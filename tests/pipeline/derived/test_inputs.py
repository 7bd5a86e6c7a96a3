"""Replays take over the fields that policies read, where an earlier replay kept them, and find the verdicts that events give."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest.lake import Lake
from pipeline.admission.policies import PolicySet
from pipeline.derived import inputs
from tests.pipeline.derived.test_kept import POLICIES, Cluster, arrive, lake_of, replay, verdicts, without_kept


def edited(limit: int) -> PolicySet:
    """The first policy alone, with another limit: it reads the same fields as before."""
    policy = POLICIES.policies[0]
    first, second = policy.validations
    changed = replace(second, expression=f"object.spec.replicas <= {limit}")
    return PolicySet((replace(policy, validations=(first, changed)),), POLICIES.bindings)


def kept_inputs(lake: Path) -> list[Path]:
    return sorted((lake / "derived" / "admissions").glob("*/inputs/*.parquet"))


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return lake_of(tmp_path)


def spoil(file: Path) -> None:
    """Let kept inputs show other replicas, under a digest that fits."""
    table = inputs.read_inputs(file)
    texts = [text.replace('"replicas":', '"replicas":1') for text in table["object"].cast(pa.string()).to_pylist()]
    column = pa.array(texts, pa.string()).dictionary_encode()
    pq.write_table(table.set_column(table.schema.get_field_index("object"), "object", column), file)
    file.rename(file.with_stem(f"{file.stem.partition('-')[0]}-{inputs._digest(file)}"))


def test_an_edited_policy_takes_over_the_inputs_of_the_one_before(lake: Lake) -> None:
    expected = without_kept(lake.path, policies=edited(3))
    without_kept(lake.path, policies=edited(6))
    kept = kept_inputs(lake.path)
    assert len(kept) == 3  # creates, updates and patches
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


def test_inputs_that_are_too_large_beside_the_events_make_room(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    without_kept(lake.path, policies=edited(3))
    before = kept_inputs(lake.path)
    monkeypatch.setattr(inputs, "_SHARE_MAX", 0.0)
    policy = POLICIES.policies[0]
    replay(lake.path, PolicySet((replace(policy, validations=policy.validations[:1]),), POLICIES.bindings))
    assert not set(before) & set(kept_inputs(lake.path))
