"""Starting: what stands in the way is named, and nothing is held afterwards."""

from __future__ import annotations

import asyncio
import socket
import time
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from api.settings import Settings
from api.sink.services import Services, _tick, open_services, stop_services
from api.sink.sockets import listen
from api.sink.tls import ServerCertificate
from ingest.errors import InputError, LakeError
from ingest.redaction.key import KEY_BYTES
from ingest.spooling.spool import Spool
from tests.recording import START, deployment, recorded, take_in

TOKEN = "0123456789abcdef"


def test_a_spool_in_use_is_named(tmp_path: Path) -> None:
    settings = Settings(lake=tmp_path)
    with Spool(settings.spool), pytest.raises(LakeError, match="another process is writing this spool"):
        open_services(settings)


def test_a_lake_whose_files_no_engine_would_find_is_refused_before_anything_is_acknowledged(tmp_path: Path) -> None:
    with pytest.raises(LakeError, match="holds a character that SQL engines expand"):
        open_services(Settings(lake=tmp_path / "lake[1]"))
    assert not list(tmp_path.iterdir())


def test_a_wrong_setting_lets_go_of_the_spool(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="names no resource"):
        open_services(Settings(lake=tmp_path, redact_resources=("no resource",)))
    Spool(tmp_path / "spool").close()


def test_the_key_for_hashes_is_made_in_the_lake(tmp_path: Path) -> None:
    services = open_services(Settings(lake=tmp_path, redact_mode="hash"))
    services.spool.close()
    assert len((tmp_path / "redaction.key").read_bytes()) == KEY_BYTES


def test_a_taken_address_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=f"127.0.0.1:{port}: cannot listen there"):
            listen("127.0.0.1", port)


def test_a_certificate_that_is_none_is_named(tmp_path: Path) -> None:
    path = tmp_path / "tls.pem"
    path.write_text("nothing")
    with pytest.raises(InputError, match="TLS cannot be set up"):
        ServerCertificate.of(Settings(tls_certificate=path, tls_key=path))
    assert ServerCertificate.of(Settings()) is None


def last_events(services: Services) -> dict[str, float]:
    """The metric that the alert about a silent cluster asks for, by cluster."""
    families = text_string_to_metric_families(services.metrics.render().decode())
    (family,) = (each for each in families if each.name == "hindcast_sink_last_event_timestamp_seconds")
    return {sample.labels["cluster"]: sample.value for sample in family.samples}


def test_a_cluster_that_is_silent_after_a_start_has_a_series(tmp_path: Path) -> None:
    """One cluster has sent before the restart, one never; and one may write from now on."""
    lake, identities = (
        take_in(tmp_path / "lake", [recorded("id-1", START, "create", deployment("web", 1))]),
        tmp_path / "identities",
    )
    identities.write_text(f"lab token:{TOKEN}\nnew token:{TOKEN}\n")
    before = time.time()
    services = open_services(Settings(lake=lake, identities=identities, drain=False, query=False))
    try:
        found = last_events(services)
        assert found["lab"] == pytest.approx(START.timestamp(), abs=1)
        assert before <= found["new"] <= time.time()
        identities.write_text(f"lab token:{TOKEN}\nnew token:{TOKEN}\nlater token:{TOKEN}\n")
        _tick(services)
        assert set(last_events(services)) == {"lab", "new", "later"}
        assert last_events(services)["lab"] == found["lab"]
        services.metrics.saw_cluster("lab", before)
        _tick(services)
        assert last_events(services)["lab"] == before
    finally:
        asyncio.run(stop_services(services))
