"""`hindcast publish`, and `--lake s3://...`: a published lake answers as the lake itself does."""

from __future__ import annotations

import importlib.util
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from api.cli import run
from api.published import cache_folder, local_lake
from api.settings import Settings
from pipeline.runs.store import RunStore
from tests.serving import RunningServer
from tests.storage import Storage

URL = "s3://lakes/demo"
POLICY = str(Path(__file__).parents[3] / "api" / "demo" / "policies" / "image-registry.yaml")


@pytest.fixture(scope="module")
def lake(demo_lake: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake of the bundled log. It is one for all tests here: no other lake may be published at its place."""
    return Path(shutil.copytree(demo_lake, tmp_path_factory.mktemp("published") / "lake"))


@pytest.fixture
def published(storage: Storage, lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """That lake, which is also published at URL; the cache of this user is empty."""
    for name, value in {**storage.environment(), "XDG_CACHE_HOME": str(tmp_path / "cache")}.items():
        monkeypatch.setenv(name, value)
    assert run(["--quiet", "--lake", str(lake), "publish", URL]) == 0
    return lake


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    capsys.readouterr()
    assert run(["--quiet", *arguments, "-o", "json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_published_lake_answers_as_the_lake_does(published: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["violations", "--by", "policy", "--by", "namespace"]
    assert printed(capsys, "--lake", URL, *asked) == printed(capsys, "--lake", str(published), *asked)
    for lake in (URL, str(published)):
        printed(capsys, "--lake", lake, "replay", "-f", POLICY)
    here, there = (RunStore(lake).every() for lake in (published, local_lake(Path(URL))))
    assert [found.run_id for found in here] == [found.run_id for found in there] != []
    assert [found.verdicts.read_bytes() for found in here] == [found.verdicts.read_bytes() for found in there]
    derived = local_lake(Path(URL)) / "derived"
    assert list(derived.glob("facts/*.json")), "a second replay counts nothing again"
    shutil.rmtree(cache_folder())
    assert printed(capsys, "--lake", URL, "runs")["runs"] == [], "the cache holds nothing but runs and derived tables"


def test_a_lake_in_a_rest_catalog_is_replayed_as_the_lake_itself(
    published: Path, storage: Storage, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in storage.rest_environment().items():
        monkeypatch.setenv(name, value)
    url = "s3://tables/demo"
    assert run(["--quiet", "--lake", str(published), "publish", url]) == 0
    found = [printed(capsys, "--lake", lake, "replay", "-f", POLICY) for lake in (url, str(published))]
    assert found[0]["bindings"] == found[1]["bindings"] != []
    (there,) = RunStore(local_lake(Path(url))).every()
    here = RunStore(published).run(there.run_id)
    assert here.verdicts.read_bytes() == there.verdicts.read_bytes()


def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr("api.published.find_spec", lambda name: None if name == "pyiceberg" else found(name))
    assert run(["--lake", URL, "violations"]) == 2
    error = capsys.readouterr().err
    assert "packages that are not installed: pyiceberg" in error
    assert "pip install 'kube-hindcast[object-storage]'" in error


def test_the_pages_of_a_published_lake(published: Path, tmp_path: Path) -> None:
    settings = Settings(lake=local_lake(Path(URL)), sink=False, query_port=0, log_json=True)
    with RunningServer(settings, tmp_path / "log") as server:
        assert server.get("/")[0] == 200
        status, body = server.get("/api/v1/violations?limit=3")
        assert (status, len(json.loads(body)["rows"])) == (200, 3)


def test_the_configuration_file_may_name_a_published_lake(
    published: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "hindcast.toml").write_text(f'lake = "{URL}"')
    monkeypatch.setenv("HINDCAST_CONFIG", str(tmp_path / "hindcast.toml"))
    monkeypatch.delenv("HINDCAST_LAKE", raising=False)
    assert printed(capsys, "violations") == printed(capsys, "--lake", str(published), "violations")


@pytest.mark.parametrize(
    ("arguments", "environment", "problem"),
    [
        (["--lake", "s3://lakes/other", "violations"], {}, "s3://lakes/other: no lake is published here"),
        (["--lake", "s3://lakes", "violations"], {}, "names a bucket and no lake in it"),
        (["--lake", URL, "compact"], {}, f"{URL}: a published lake is a copy and cannot be written"),
        (["--lake", URL, "publish", "s3://lakes/copy"], {}, f"{URL}: is a published lake already"),
        (["--lake", URL, "serve", "--port", "0"], {}, f"{URL}: a published lake takes no events"),
        (["--lake", "LAKE", "publish", "s3://absent/lake"], {}, "the store answers NO_SUCH_BUCKET"),
        (["--lake", "LAKE", "publish", "lakes/demo"], {}, "'lakes/demo' does not name a published lake"),
        (["--lake", "LAKE", "publish", URL], {"AWS_SECRET_ACCESS_KEY": "wrong"}, "the store answers ACCESS_DENIED"),
        (["--lake", "LAKE", "publish", URL], {"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}, "Could not connect to server"),
        (
            ["--lake", URL, "violations"],
            {"PYICEBERG_CATALOG__HINDCAST__TYPE": "rest", "PYICEBERG_CATALOG__HINDCAST__URI": "http://user:secret@127.0.0.1:9"},
            "the catalog 127.0.0.1:9 cannot be used",
        ),
    ],
)
def test_errors_name_the_place_and_the_next_step(
    published: Path,
    arguments: list[str],
    environment: dict[str, str],
    problem: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    forget_clients()
    capsys.readouterr()
    assert run(["--quiet", *(str(published) if each == "LAKE" else each for each in arguments)]) == 2
    error = capsys.readouterr().err
    assert problem in error
    assert "secret" not in error
    forget_clients()


def forget_clients() -> None:
    """A client keeps the credentials with which it was made, as long as its process lives."""
    from ingest.published import target

    target._s3.cache_clear()
