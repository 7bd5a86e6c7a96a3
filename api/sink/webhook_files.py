"""The files with which a kube-apiserver and this sink find and identify each other: kubeconfig, identities."""

from __future__ import annotations

import os
import secrets
from base64 import b64encode
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import yaml

from ingest.errors import InputError

TOKEN_BYTES = 32


@dataclass(frozen=True, slots=True)
class Sink:
    """How a cluster reaches the sink. Paths are those on the control plane's machines; `client_name` is the common name of its
    certificate."""

    cluster: str
    server: str
    certificate_authority: str = ""
    client_certificate: str = ""
    client_key: str = ""
    client_name: str = ""
    authority_pem: str = ""  # this value is written into the kubeconfig itself, in place of a path

    def __post_init__(self) -> None:
        try:
            parts = urlsplit(self.server)
            is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
        except ValueError:  # brackets without an address, or a port that is not a number
            is_url = False
        if not is_url:
            raise InputError(f"--server: {self.server!r} is not a URL of a sink", "write https://HOST:7443")
        if parts.query or parts.fragment:
            raise InputError(f"--server: {self.server!r} has a query", "an API server drops it; leave it out")
        if self.authority_pem and self.certificate_authority:
            raise InputError(
                "--make-certificate makes an authority, and --certificate-authority names one", "leave one of them out"
            )
        if self.authority_pem and not self.is_tls:
            raise InputError(f"--make-certificate: {self.server} speaks no TLS", "use https://")
        if bool(self.client_certificate) != bool(self.client_key):
            raise InputError("a client certificate needs its key", "give --client-certificate and --client-key")
        if self.client_certificate and not self.is_tls:
            raise InputError(f"--client-certificate: {self.server} speaks no TLS", "use https://")

    @property
    def is_tls(self) -> bool:
        """Whether API servers send tokens and certificates at all: over plain HTTP an API server leaves the token out."""
        return self.server.startswith("https://")

    @property
    def host(self) -> str:
        """The name or address by which API servers know the sink."""
        return urlsplit(self.server).hostname or ""

    @property
    def port(self) -> int:
        """The port to which API servers post."""
        parts = urlsplit(self.server)
        return parts.port or (443 if parts.scheme == "https" else 80)

    @property
    def url(self) -> str:
        """The URL to which API servers post batches."""
        base = self.server.rstrip("/")
        return base if urlsplit(base).path.endswith(f"/audit/{self.cluster}") else f"{base}/audit/{self.cluster}"


def new_token() -> str:
    """A random bearer token of 256 bits, in hexadecimal."""
    return secrets.token_hex(TOKEN_BYTES)


def kubeconfig_text(sink: Sink, token: str) -> str:
    """The file for --audit-webhook-config-file. A client certificate, if given, replaces the token."""
    server = {"server": sink.url}
    if sink.authority_pem:
        server["certificate-authority-data"] = b64encode(sink.authority_pem.encode()).decode()
    elif sink.certificate_authority:
        server["certificate-authority"] = sink.certificate_authority
    user = (
        {"client-certificate": sink.client_certificate, "client-key": sink.client_key}
        if sink.client_certificate
        else {"token": token}
    )
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "hindcast", "cluster": server}],
        "users": [{"name": sink.cluster, "user": user}],
        "contexts": [{"name": "hindcast", "context": {"cluster": "hindcast", "user": sink.cluster}}],
        "current-context": "hindcast",
    }
    head = "# Where kube-apiserver posts audit events to; it reads this file once, when it starts.\n"
    return head + yaml.safe_dump(config, sort_keys=False)


def identities_text(sink: Sink, token: str, recorder_token: str = "") -> str:
    """The lines for `hindcast serve --identities` that let API servers with a token or certificate write as this cluster.

    The recorder's token opens /admission alone.
    """
    proofs = [f"token:{token}", *([f"recorder:{recorder_token}"] if recorder_token else [])]
    if sink.client_certificate:
        proofs = [f"name:{sink.client_name or f'apiserver-{sink.cluster}'}"]
    head = "# Append this to the file of `hindcast serve --identities`; it takes over changes by itself.\n"
    return head + "".join(f"{sink.cluster} {proof}\n" for proof in proofs)


def write_new(files: dict[Path, tuple[str, int]], *, force: bool) -> None:
    """Write (text, mode) of each path. If one exists already and `force` is not given, write no file.

    Raises InputError.
    """
    there = [path for path in files if path.exists()]
    if there and not force:
        raise InputError(f"{', '.join(map(str, there))}: is there already", "choose another --out, or say --force")
    for path, (text, mode) in files.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink(missing_ok=True)
            # Each file is created again with its mode, so that a secret is never readable by others, not even for a moment.
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
            with os.fdopen(handle, "w", encoding="utf-8") as stream:
                stream.write(text)
        except OSError as error:
            raise InputError(f"{path}: cannot be written: {error.strerror}", "choose another --out") from error
