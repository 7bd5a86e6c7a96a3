"""What a change of a chain adds and takes away."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml

from pipeline.manifests.files import manifests_of
from pipeline.stages.conditions.chain import Chain
from pipeline.stages.conditions.decode import chains_of
from pipeline.stages.conditions.difference import Change, Option, changes
from pipeline.stages.stage import Asked
from queries import open_lake
from tests.recording import take_in

from .test_stage import SECRETS, created, event

OPEN = {"stage": "ResponseStarted"}


def chain(*environments: str) -> Chain:
    condition = f"object.metadata.labels.env in {list(environments)}".replace("'", '"')
    authorizers = [
        {
            "name": "a",
            "when": 'request.resource == "secrets"',
            "conditions": [{"id": "env", "effect": "Allow", "condition": condition}],
        }
    ]
    manifest: dict[str, Any] = {"apiVersion": "hindcast/v1alpha1", "kind": "AuthorizerChain", "metadata": {"name": "c"}}
    (found,) = chains_of(manifests_of([("chain.yaml", yaml.safe_dump({**manifest, "spec": {"authorizers": authorizers}}))]))
    return found


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Lucas watches, loses the watch, and watches again after objects were written; then one update of his is refused."""
    watch = f"{SECRETS}?watch=true"
    refused = {"reference": {"name": "failing"}, "responseStatus": {"metadata": {}, "code": 403}}
    return take_in(
        tmp_path_factory.mktemp("conditions") / "lake",
        [
            event(0, "watch", watch, stageTimestamp="2026-01-01T00:00:00Z")
            | {"stageTimestamp": event(2, "watch", watch)["stageTimestamp"]},
            created(3, "Secret", SECRETS, "failing", "root", labels={"env": "dev"}),
            created(4, "Secret", SECRETS, "cleaned", "root", labels={"env": "dev"}),
            created(5, "Secret", SECRETS, "dropped", "root", labels={"env": "dev"}),
            created(6, "Secret", SECRETS, "stays", "root", labels={"env": "test"}),
            event(8, "watch", f"{watch}&resourceVersion=6", **OPEN),
            event(9, "update", f"{SECRETS}/failing", reason=None, **refused),
            event(10, "get", f"{SECRETS}/cleaned", reference={"name": "cleaned"}),
            event(11, "list", SECRETS),
        ],
    )


def changed(lake: Path, old: Chain, new: Chain) -> dict[str, Change]:
    with closing(open_lake(lake)) as reader:
        return {each.verb: each for each in changes(reader, old, new, Asked())}


def test_a_change_takes_known_objects_away_and_adds_others(lake: Path) -> None:
    found = changed(lake, chain("dev", "test"), chain("test", "prod"))
    assert set(found) == {"list", "watch"}
    lost = found["list"].lost
    assert lost.selectors == ("-n shop -l env=dev",)
    assert lost.known == 3
    assert lost.examples[0] == "shop/failing (last written by root)"
    newly = found["list"].newly
    assert (newly.is_nothing, newly.selectors, newly.known) == (False, ("-n shop -l env=prod",), 0)


def test_no_object_can_newly_show_where_that_is_proved(lake: Path) -> None:
    found = changed(lake, chain("dev", "test"), chain("test"))
    assert found["list"].newly.is_nothing
    assert not found["list"].lost.is_nothing
    assert changed(lake, chain("dev"), chain("dev")) == {}


def test_a_client_that_watches_again_keeps_what_it_lost(lake: Path) -> None:
    watch = changed(lake, chain("dev", "test"), chain("test"))["watch"]
    assert watch.open_watches == 1
    assert {each.name: each.option for each in watch.resumed} == {
        "shop/failing": Option.FAILS,
        "shop/cleaned": Option.CLEANED,
        "shop/dropped": Option.DROPPED,
    }
