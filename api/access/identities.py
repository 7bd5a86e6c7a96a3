"""Who may write as which cluster: bearer tokens and names in client certificates, one line each in one file.

# CLUSTER   WHAT
prod-eu     token:4f0c...            the token of that cluster's webhook kubeconfig
prod-us     name:apiserver-prod-us   the common name of its client certificate (needs --client-ca)
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from pathlib import Path

import structlog

from ingest.errors import InputError
from ingest.sink import is_cluster_name

TOKEN_LENGTH_MIN = 16

_log = structlog.get_logger("hindcast.identities")


# The kind of identities that write AdmissionReviews alone.
RECORDER = "recorder"


@dataclass(frozen=True, slots=True)
class Identity:
    """One way of proving to be a cluster; only the hash of the proof is kept in memory.

    `kind` is token or name; or recorder, a token for AdmissionReviews alone, because many may read a webhook's configuration.
    """

    cluster: str
    kind: str
    proof_hash: bytes


def read_identities(path: Path) -> list[Identity]:
    """The identities of a file. Raises InputError with file and line for an invalid line, or when the file cannot be read."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: the identities cannot be read: {error}") from error
    identities = []
    for number, line in enumerate(lines, 1):
        if not (text := line.strip()) or text.startswith("#"):
            continue
        cluster, what = (*text.split(None, 1), "")[:2]
        kind, _, proof = what.strip().partition(":")
        if not is_cluster_name(cluster) or kind not in ("token", "name", RECORDER) or not proof:
            # The line itself may be a token, so it is not repeated here.
            raise InputError(
                f"{path}:{number}: this is not an identity",
                "write `CLUSTER token:TOKEN`, `CLUSTER recorder:TOKEN` or `CLUSTER name:COMMON-NAME`",
            )
        if kind != "name" and len(proof) < TOKEN_LENGTH_MIN:
            raise InputError(
                f"{path}:{number}: the token is shorter than {TOKEN_LENGTH_MIN} characters", "make one with `openssl rand -hex 32`"
            )
        identities.append(Identity(cluster, kind, _hash(proof)))
    if not identities:
        raise InputError(f"{path}: holds no identity, so no sender could write", "write `CLUSTER token:TOKEN` lines")
    return identities


class IdentityFile:
    """The identities of a file that may change while the server runs. Raises InputError when it cannot be read at first."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp = _stamp(path)
        self._identities = read_identities(path)

    @property
    def clusters(self) -> frozenset[str]:
        """The clusters that may write."""
        return frozenset(each.cluster for each in self._identities)

    def reload_if_changed(self) -> None:
        """Reload a changed file; if it cannot be read, the identities stay and the error is logged."""
        stamp = _stamp(self._path)
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self._identities = read_identities(self._path)
        except InputError as error:
            _log.error("identities_not_reloaded", error=str(error))
        else:
            _log.info("identities_reloaded", count=len(self._identities))

    def clusters_of(self, token: str | None, certificate_name: str | None, *, is_review: bool = False) -> frozenset[str]:
        """The clusters that the bearer of this token or certificate may write as; empty when neither proves anything.

        `is_review`: it writes an AdmissionReview, and no audit event.
        """
        proofs = (("token", token), ("name", certificate_name), (RECORDER, token if is_review else None))
        shown = {kind: _hash(proof) for kind, proof in proofs if proof}
        found = set()
        # Every identity is compared, in constant time, so that the duration does not show how close a guess was.
        for identity in self._identities:
            if hmac.compare_digest(shown.get(identity.kind, b""), identity.proof_hash):
                found.add(identity.cluster)
        return frozenset(found)


def _hash(proof: str) -> bytes:
    return hashlib.sha256(proof.encode("utf-8", "surrogateescape")).digest()


def _stamp(path: Path) -> tuple[int, int, int]:
    try:
        status = path.stat()
    except OSError:
        return (0, 0, 0)
    return (status.st_mtime_ns, status.st_size, status.st_ino)
