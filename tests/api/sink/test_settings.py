"""Settings come from one place, say what is wrong with them, and are safe when nothing is said."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, get_origin, get_type_hints

import pytest

from api.settings import Settings, is_loopback
from ingest.errors import InputError
from ingest.redaction.redact import DEFAULT_RESOURCES


def test_an_option_wins_over_the_environment_and_that_over_the_default() -> None:
    environment = {"HINDCAST_LAKE": "/data/lake", "HINDCAST_PORT": "9000", "HINDCAST_REDACT": "no"}
    settings = Settings.read(environment, port=9001, host=None)
    assert (settings.lake, settings.port, settings.redact, settings.host) == (Path("/data/lake"), 9001, False, "127.0.0.1")


def test_the_second_process_reads_the_same_settings() -> None:
    settings = Settings(
        lake=Path("there"),
        redact=False,
        redact_resources=("a", "b/c"),
        drain_interval_seconds=0.5,
        client_ca=None,
        log_level="debug",
    )
    assert Settings.read(settings.environment()) == settings
    assert Settings.read(Settings(redact_resources=()).environment()).redact_resources == ()


def test_safe_when_nothing_is_said() -> None:
    settings = Settings()
    assert is_loopback(settings.host)
    assert is_loopback(settings.query_host)
    assert settings.redact
    assert settings.redact_resources == DEFAULT_RESOURCES


def test_every_setting_says_what_it_is_for() -> None:
    hints = get_type_hints(Settings, include_extras=True)
    for item in fields(Settings):
        assert get_origin(hints[item.name]) is Annotated, item.name
        assert hints[item.name].__metadata__[0], item.name


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"host": "0.0.0.0"}, "anybody there could write evidence"),
        ({"host": "0.0.0.0", "identities": Path("ids")}, "give --tls-certificate and --tls-key,"),
        ({"host": "10.0.0.1", "tls_certificate": Path("c"), "tls_key": Path("k")}, "give --identities,"),
        ({"tls_certificate": Path("c")}, "both a certificate and its key"),
        ({"client_ca": Path("ca")}, "only over TLS"),
        ({"redact_mode": "blur"}, "'blur' is unknown"),
        ({"retention_days": 1_000_000}, "the most is 36500"),
        ({"maintain_interval_seconds": -1.0}, "must not be below 0"),
        ({"drain_interval_seconds": 0.0}, "drain_interval_seconds is 0.0"),
        ({"query_host": "0.0.0.0"}, "anybody there could read the lake"),
        ({"query_host": "::", "query_tokens": Path("t")}, "give --tls-certificate and --tls-key,"),
        ({"query_host": "10.0.0.1", "tls_certificate": Path("c"), "tls_key": Path("k")}, "give --query-tokens or --oidc-issuer,"),
        ({"sink": False, "query": False}, "nothing to serve"),
        ({"replays_max": 0}, "replays_max is 0"),
    ],
)
def test_contradictions_are_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Settings(**changes)


@pytest.mark.parametrize(
    ("name", "text"), [("HINDCAST_PORT", "many"), ("HINDCAST_REDACT", "perhaps"), ("HINDCAST_BODY_SECONDS_MAX", "")]
)
def test_a_wrong_variable_is_named(name: str, text: str) -> None:
    with pytest.raises(InputError, match=name):
        Settings.read({name: text})


def test_beyond_loopback_with_protection_or_on_purpose() -> None:
    Settings(host="0.0.0.0", insecure=True)
    Settings(host="0.0.0.0", sink=False)
    Settings(query_host="0.0.0.0", query=False)
    Settings(query_host="0.0.0.0", tls_certificate=Path("c"), tls_key=Path("k"), oidc_issuer="https://issuer.example")
    Settings(host="0.0.0.0", tls_certificate=Path("c"), tls_key=Path("k"), identities=Path("i"))


@pytest.mark.parametrize(
    ("host", "near"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("a.example", False),
    ],
)
def test_loopback(host: str, near: bool) -> None:
    assert is_loopback(host) == near


@pytest.mark.parametrize(
    ("given", "expected"), [({}, None), ({"HINDCAST_LOG_JSON": "no"}, False), ({"HINDCAST_LOG_JSON": "1"}, True)]
)
def test_the_form_of_the_log_is_open_until_it_is_asked_for(given: dict[str, str], expected: bool | None) -> None:
    settings = Settings.read(given)
    assert settings.log_json is expected
    assert Settings.read(settings.environment()).log_json is expected
