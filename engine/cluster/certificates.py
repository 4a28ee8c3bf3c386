"""A cluster's single key and certificate: whoever has the key may run code on the workers. Files
with keys that other users can read or write are refused."""

from __future__ import annotations

import os
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from distributed import Security

from engine.cluster.folder import ClusterError
from engine.errors import Problem
from engine.files import open_regular

LASTS: Final = timedelta(days=365)
_SKEW: Final = timedelta(hours=1)
"""Tolerance for clocks that differ between machines."""
# a key has a few kilobytes; another file, named by mistake, may be of any size
_MOST_BYTES: Final = 1 << 20
_ANEW: Final = "make another folder with `crosswind cluster init`, and start scheduler and workers"


def write_certificate(path: Path) -> None:
    """Write a new key with its certificate, readable by this user only. Raises `ClusterError`, also
    if the file exists."""
    content = _pem(datetime.now(UTC))
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, 0o600)  # independent of the umask
            file.write(content)
    except FileExistsError as error:
        raise ClusterError(
            Problem(
                "is there already, and is not replaced: its cluster would end",
                path=path,
                hint="name another folder with --out",
            )
        ) from error
    except OSError as error:
        raise ClusterError(Problem(f"cannot be written: {error.strerror}", path=path)) from error


def _pem(now: datetime) -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "crosswind-cluster")])
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )
    # newer Python versions reject a CA certificate without these extensions
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + LASTS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    secret = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return secret + certificate.public_bytes(serialization.Encoding.PEM)


def check_certificate(path: Path) -> datetime:
    """Return when it expires. Raises `ClusterError` if it is unusable or not private."""
    content = read_kept(path, "the cluster's key", hint="`crosswind cluster init` makes it")
    if b"PRIVATE KEY-----" not in content or b"-----BEGIN CERTIFICATE-----" not in content:
        raise ClusterError(
            Problem("expected a key and a certificate in one PEM file", path=path, hint=_ANEW)
        )
    try:
        certificate = x509.load_pem_x509_certificate(content)
        key = serialization.load_pem_private_key(content, password=None)
    except (ValueError, TypeError) as error:  # TypeError: it has a password
        raise ClusterError(
            Problem("is damaged: no key and certificate can be read from it", path=path, hint=_ANEW)
        ) from error
    if key.public_key() != certificate.public_key():
        raise ClusterError(
            Problem("holds a key and the certificate of another one", path=path, hint=_ANEW)
        )
    ends = certificate.not_valid_after_utc
    if ends <= datetime.now(UTC):
        raise ClusterError(Problem(f"expired on {ends:%Y-%m-%d}", path=path, hint=_ANEW))
    return ends


def certificate_of_this_run() -> str:
    """A new key with its certificate, as PEM and in no file, for processes started by this one."""
    return _pem(datetime.now(UTC)).decode("ascii")


def security_of(pem: str) -> Security:
    """Mutual TLS with the certificate in this PEM text; both sides must present it."""
    begin = pem.index("-----BEGIN CERTIFICATE-----")
    key, certificate = pem[:begin], pem[begin:]
    return Security(
        require_encryption=True,
        tls_ca_file=certificate,
        tls_client_cert=certificate,
        tls_client_key=key,
        tls_scheduler_cert=certificate,
        tls_scheduler_key=key,
        tls_worker_cert=certificate,
        tls_worker_key=key,
    )


def security_from(path: Path) -> Security:
    """Mutual TLS with the certificate in this file. Raises `ClusterError`."""
    check_certificate(path)
    pem = str(path)
    return Security(
        require_encryption=True,
        tls_ca_file=pem,
        tls_client_cert=pem,
        tls_client_key=pem,
        tls_scheduler_cert=pem,
        tls_scheduler_key=pem,
        tls_worker_cert=pem,
        tls_worker_key=pem,
    )


def read_kept(path: Path, what: str, *, hint: str | None = None) -> bytes:
    """Read the file. `what` names the expected content, `hint` says what to do if it is missing.
    Raises `ClusterError`."""
    try:
        with open_regular(path) as file:
            _check_kept(os.fstat(file.fileno()), path)
            return file.read(_MOST_BYTES)
    except FileNotFoundError as error:
        raise ClusterError(
            Problem(f"there is no such file, expected {what}", path=path, hint=hint)
        ) from error
    except OSError as error:
        raise ClusterError(Problem(f"cannot be read: {error.strerror}", path=path)) from error


def _check_kept(status: os.stat_result, path: Path) -> None:
    """Raise `ClusterError` for unsafe permissions, by PostgreSQL's rule: one's own key must be
    private; a group may read root's, as with Secrets that Kubernetes mounts."""
    mode = stat.S_IMODE(status.st_mode)
    lent = 0o040 if status.st_uid == 0 != os.geteuid() else 0
    if mode & 0o077 & ~lent:
        raise ClusterError(
            Problem(
                f"others can read or write this key: its mode is {mode:04o}, expected 0600",
                path=path,
                hint=f"chmod 600 {path}; if anyone else may have read it, make another one",
            )
        )
