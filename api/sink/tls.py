"""TLS of the server: its certificate, which may be renewed while it runs."""

from __future__ import annotations

import ssl
from pathlib import Path

import structlog

from ingest.errors import InputError

from ..settings import Settings

_log = structlog.get_logger("hindcast.tls")


class ServerCertificate:
    """An SSL context whose certificate follows its files. Raises InputError when they cannot be used at first."""

    def __init__(self, certificate: Path, key: Path, client_ca: Path | None) -> None:
        self._files = (certificate, key)
        self._stamps = _stamps(self._files)
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            self.context.load_cert_chain(certificate, key)
            if client_ca is not None:
                self.context.load_verify_locations(client_ca)
                # The client certificate is optional, because probes and senders with a token have no certificate. The route decides
                # what it allows.
                self.context.verify_mode = ssl.CERT_OPTIONAL
        except (OSError, ssl.SSLError) as error:
            raise InputError(
                f"{certificate}, {key}: TLS cannot be set up: {error}", "give PEM files that belong together"
            ) from error

    @classmethod
    def of(cls, settings: Settings) -> ServerCertificate | None:
        """The certificate that the settings name, or None when the server speaks plain HTTP."""
        if settings.tls_certificate is None or settings.tls_key is None:
            return None
        return cls(settings.tls_certificate, settings.tls_key, settings.client_ca)

    def reload_if_changed(self) -> None:
        """Use a renewed certificate for new connections; files that do not fit together (yet) leave the old one, and are logged."""
        stamps = _stamps(self._files)
        if stamps == self._stamps:
            return
        try:
            # A context of its own tries them first: a half-written pair must not spoil the one in use.
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(*self._files)
            self.context.load_cert_chain(*self._files)
        except (OSError, ssl.SSLError) as error:
            _log.error("certificate_not_reloaded", certificate=str(self._files[0]), error=str(error))
            return
        self._stamps = stamps
        _log.info("certificate_reloaded", certificate=str(self._files[0]))


def _stamps(files: tuple[Path, ...]) -> list[tuple[int, int]]:
    stamps = []
    for path in files:
        try:
            status = path.stat()
        except OSError:
            stamps.append((0, 0))
        else:
            stamps.append((status.st_mtime_ns, status.st_ino))
    return stamps
