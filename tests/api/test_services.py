"""Starting: what stands in the way is named, and nothing is held afterwards."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from api.settings import Settings
from api.sink.services import open_services
from api.sink.sockets import listen
from api.sink.tls import ServerCertificate
from ingest.errors import InputError, LakeError
from ingest.redaction.key import KEY_BYTES
from ingest.spooling.spool import Spool


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
