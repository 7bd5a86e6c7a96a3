"""Every setting of the server, read in this one place: the command line, else the environment, else the default.

The environment variable of a setting is `HINDCAST_` and its name in capitals; lists are separated by commas.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Self, get_type_hints

from ingest.errors import InputError
from ingest.redaction.rules import DEFAULT_RESOURCES
from ingest.sink_limits import SinkLimits

from .confinement import MEMORY_BYTES_MIN

ENV_PREFIX = "HINDCAST_"
RETENTION_DAYS_MAX = 36_500
_POSITIVE = (
    "drain_interval_seconds",
    "drain_stuck_seconds",
    "body_bytes_max",
    "body_seconds_max",
    "query_seconds_max",
    "query_memory_bytes_max",
    "replays_max",
    "replay_seconds_max",
    "replay_output_bytes_max",
)
_TRUE = ("1", "true", "yes", "on")
_LIMITS = SinkLimits()
_FALSE = ("0", "false", "no", "off", "")


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of `serve`. Names carry their units. Raises InputError when settings contradict each other."""

    lake: Annotated[Path, "the folder that keeps the events"] = Path("hindcast-lake")
    host: Annotated[str, "the address to listen on; any but loopback needs TLS and identities, or --insecure"] = "127.0.0.1"
    port: Annotated[int, "the port to listen on; 0 takes a free one"] = 7443
    insecure: Annotated[bool, "listen beyond loopback without TLS, or without knowing who writes or reads"] = False
    tls_certificate: Annotated[Path | None, "PEM file with the server's certificate and its chain; read again when it changes"] = (
        None
    )
    tls_key: Annotated[Path | None, "PEM file with the key of that certificate"] = None
    client_ca: Annotated[Path | None, "PEM file with the authorities of the client certificates that may prove an identity"] = None
    identities: Annotated[
        Path | None,
        "file of lines `CLUSTER token:TOKEN`, `CLUSTER recorder:TOKEN` or `CLUSTER name:NAME`: who may write as which cluster",
    ] = None
    sink: Annotated[bool, "receive audit events; without it, only questions about the lake are answered"] = True
    query: Annotated[
        bool, "answer questions about the lake: the pages and the HTTP API, on a port and in a process of their own"
    ] = True
    query_host: Annotated[
        str, "the address of the pages and the HTTP API; any but loopback needs TLS and tokens or OIDC, or --insecure"
    ] = "127.0.0.1"
    query_port: Annotated[int, "the port of the pages and the HTTP API; 0 takes a free one"] = 7444
    query_tokens: Annotated[
        Path | None, "file of lines `NAME token:TOKEN` or `NAME sha256:HEX`: who may read; read again when it changes"
    ] = None
    oidc_issuer: Annotated[str, "accept tokens (JWT) of this issuer, the claim iss"] = ""
    oidc_audience: Annotated[str, "the audience that such tokens must have, the claim aud"] = ""
    oidc_jwks: Annotated[str, "file or https URL with the issuer's keys; by default its discovery document names them"] = ""
    oidc_user_claim: Annotated[str, "the claim with the user's name"] = "sub"
    oidc_groups_claim: Annotated[str, "the claim with the user's groups"] = "groups"
    oidc_users: Annotated[
        tuple[str, ...], "the users who may read; without users and groups, every token for the audience may read"
    ] = ()
    oidc_groups: Annotated[tuple[str, ...], "the groups whose members may read"] = ()
    query_seconds_max: Annotated[float, "how long one question may take"] = 30.0
    query_memory_bytes_max: Annotated[int, "the memory that questions may take for sorting and joining"] = 2 * 1024**3
    replays_max: Annotated[
        int,
        "replays, started over HTTP, that run at one time; each takes one core, and one reader holds all but one at most; "
        "while all run, one more runs the first 15 s of another reader's replay",
    ] = 2
    replay_seconds_max: Annotated[float, "how long a replay started over HTTP may take"] = 6 * 3600.0
    replay_memory_bytes_max: Annotated[
        int, "the memory that a replay started over HTTP may take; 0 takes half of the machine's, at most 4 GiB"
    ] = 0
    replay_output_bytes_max: Annotated[int, "bytes that a replay started over HTTP may write to the lake"] = 4 * 1024**3
    redact: Annotated[bool, "take credentials out of events before they reach the disk"] = True
    redact_mode: Annotated[str, "how to remove the body of a credential: drop it, or hash it with the key of this lake"] = "drop"
    redact_resources: Annotated[tuple[str, ...], "the resources whose bodies hold credentials"] = DEFAULT_RESOURCES
    redact_paths: Annotated[tuple[str, ...], "values in bodies to take out, as pods:spec.containers.env.value"] = ()
    drain: Annotated[bool, "store the events of the spool in the lake, in a second process"] = True
    drain_interval_seconds: Annotated[float, "how long an event waits in the spool at most before the views may show it"] = 10.0
    drain_stuck_seconds: Annotated[
        float, "`/readyz` warns when the drain has stored nothing for so long although segments wait"
    ] = 300.0
    maintain_interval_seconds: Annotated[float, "how often small files are merged and old ones removed; 0 leaves that to you"] = (
        600.0
    )
    retention_days: Annotated[int, "how many whole UTC days of events are kept before today; 0 keeps everything"] = 0
    objects_retention_days: Annotated[int, "how many of those days keep the bodies of their events, too; 0 keeps all bodies"] = 0
    body_bytes_max: Annotated[int, "the largest body that the sink accepts"] = _LIMITS.body_bytes_max
    in_flight_bytes_max: Annotated[int, "how many bytes of bodies the sink receives at one time"] = _LIMITS.in_flight_bytes_max
    backlog_bytes_max: Annotated[
        int, "report that the drain is behind when so many compressed bytes wait; batches are still taken"
    ] = _LIMITS.backlog_bytes_max
    disk_free_bytes_min: Annotated[int, "with less free space than this, the sink asks senders to wait"] = (
        _LIMITS.disk_free_bytes_min
    )
    body_seconds_max: Annotated[float, "how long a body may take to arrive; the API server gives up after 30"] = 25.0
    shutdown_seconds: Annotated[int, "how long to finish running work after a termination signal"] = 10
    connections_max: Annotated[int, "connections that are served at one time"] = 512
    log_level: Annotated[str, "debug, info, warning or error"] = "info"
    log_json: Annotated[
        bool | None, "one JSON object a line on standard error; by default text for a person where that is a terminal"
    ] = None

    def __post_init__(self) -> None:
        _check(self)

    @property
    def spool(self) -> Path:
        """Where acknowledged batches wait for the drain."""
        return self.lake / "spool"

    @property
    def quarantine(self) -> Path:
        """The folder of records that are not events."""
        return self.lake / "quarantine"

    @property
    def limits(self) -> SinkLimits:
        """The sink's own limits."""
        return SinkLimits(
            body_bytes_max=self.body_bytes_max,
            in_flight_bytes_max=self.in_flight_bytes_max,
            backlog_bytes_max=self.backlog_bytes_max,
            disk_free_bytes_min=self.disk_free_bytes_min,
        )

    @classmethod
    def read(cls, environment: Mapping[str, str], **given: Any) -> Self:
        """The settings from options and environment; an option that is None was not given. Raises InputError."""
        kinds = get_type_hints(cls)
        values = {name: value for name, value in given.items() if value is not None}
        for item in fields(cls):
            variable = ENV_PREFIX + item.name.upper()
            if item.name not in values and variable in environment:
                values[item.name] = _parse(variable, environment[variable], kinds[item.name])
        return cls(**values)

    def environment(self) -> dict[str, str]:
        """The variables from which `read` returns these settings again; they pass the settings to the second process."""
        pairs = ((item.name, getattr(self, item.name)) for item in fields(self))
        return {
            ENV_PREFIX + name.upper(): ",".join(value) if isinstance(value, tuple) else str(value)
            for name, value in pairs
            if value is not None
        }


def _parse(variable: str, text: str, kind: Any) -> Any:
    if kind in (bool, bool | None):
        if text.lower() not in _TRUE + _FALSE:
            raise InputError(f"{variable}: {text!r} is neither true nor false")
        return text.lower() in _TRUE
    if kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            raise InputError(f"{variable}: {text!r} is not a number") from None
    if kind is str:
        return text
    if kind == tuple[str, ...]:
        return tuple(part.strip() for part in text.split(",") if part.strip())
    return Path(text)


def is_loopback(host: str) -> bool:
    """Whether an address can be reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _check(settings: Settings) -> None:
    if (settings.tls_certificate is None) != (settings.tls_key is None):
        raise InputError("TLS needs both a certificate and its key", "give --tls-certificate and --tls-key")
    if settings.client_ca is not None and settings.tls_certificate is None:
        raise InputError("client certificates can be asked for only over TLS", "give --tls-certificate and --tls-key")
    if settings.redact_mode not in ("drop", "hash"):
        raise InputError(f"redact mode {settings.redact_mode!r} is unknown", "choose drop or hash")
    if not settings.sink and not settings.query:
        raise InputError("--no-sink and --no-query leave nothing to serve", "leave out one of them")
    for name in _POSITIVE:
        if getattr(settings, name) <= 0:
            raise InputError(f"{name} is {getattr(settings, name)}, it must be above 0")
    if 0 < settings.replay_memory_bytes_max < MEMORY_BYTES_MIN:
        raise InputError(
            f"replay_memory_bytes_max is {settings.replay_memory_bytes_max}, a replay does not start with less than "
            f"{MEMORY_BYTES_MIN}",
            "0 takes half of the machine's memory, at most 4 GiB",
        )
    for name in ("replay_memory_bytes_max", "maintain_interval_seconds", "retention_days", "objects_retention_days"):
        if getattr(settings, name) < 0:
            raise InputError(f"{name} is {getattr(settings, name)}, it must not be below 0")
    for name in ("retention_days", "objects_retention_days"):
        if getattr(settings, name) > RETENTION_DAYS_MAX:
            raise InputError(f"{name} is {getattr(settings, name)}, the most is {RETENTION_DAYS_MAX}", "0 keeps everything")
    if settings.sink:
        writers: dict[str, object] = {
            "--tls-certificate and --tls-key": settings.tls_certificate,
            "--identities": settings.identities,
        }
        _check_reach(settings, settings.host, "write evidence", writers)
    if settings.query:
        shown = settings.query_tokens or settings.oidc_issuer
        readers: dict[str, object] = {
            "--tls-certificate and --tls-key": settings.tls_certificate,
            "--query-tokens or --oidc-issuer": shown,
        }
        _check_reach(settings, settings.query_host, "read the lake", readers)


def _check_reach(settings: Settings, host: str, danger: str, needed: Mapping[str, object]) -> None:
    """Raise InputError for an address that others can reach, without TLS and credentials."""
    missing = [option for option, value in needed.items() if not value]
    if missing and not is_loopback(host) and not settings.insecure:
        raise InputError(
            f"{host} can be reached from other machines, and anybody there could {danger}",
            f"give {' and '.join(missing)}, listen on 127.0.0.1, or say --insecure",
        )
