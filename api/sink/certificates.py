"""A certificate for the sink for organisations without one: one authority and one certificate. No key is kept that could sign more.

The authority's file serves only to check the sink: the authority's key is deleted once it has signed.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

# API servers use Go's TLS, which has no limit; browsers reject certificates that are valid for longer than 398 days.
VALID_DAYS = 397
_CLOCKS_DIFFER = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Certificates:
    """PEM texts: the authority, the sink's certificate, its key; `expires` is when their validity ends."""

    authority: str
    certificate: str
    key: str
    expires: datetime


def make_certificates(host: str, now: datetime) -> Certificates:
    """An authority, and a certificate signed by it, for a host name or an IP address."""
    start, end = (now - _CLOCKS_DIFFER).astimezone(UTC), (now + timedelta(days=VALID_DAYS)).astimezone(UTC)
    authority_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    authority_name = _name(f"hindcast sink {host}")
    authority = (
        _builder(authority_name, authority_name, start, end, authority_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    certificate = (
        _builder(_name(host), authority_name, start, end, key.public_key())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.SubjectAlternativeName([_alternative(host)]), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    plain = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    pem = serialization.Encoding.PEM
    return Certificates(authority.public_bytes(pem).decode(), certificate.public_bytes(pem).decode(), plain.decode(), end)


def _name(text: str) -> x509.Name:
    # X.520 allows 64 characters; clients check the alternative names instead.
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:64])])


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host.encode("idna").decode())


def _builder(
    subject: x509.Name, issuer: x509.Name, start: datetime, end: datetime, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )
