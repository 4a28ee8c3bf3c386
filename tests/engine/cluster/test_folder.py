"""What a cluster's folder holds is made for one user, and refused in words when it is not right."""

from __future__ import annotations

import os
import ssl
import stat
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from engine.cluster import certificates
from engine.cluster.certificates import check_certificate, security_from, write_certificate
from engine.cluster.folder import ClusterError, folder_of, scheduler_address, write_address


@pytest.fixture
def pem(tmp_path: Path) -> Path:
    path = tmp_path / "cluster.pem"
    write_certificate(path)
    return path


@pytest.fixture
def mask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


@pytest.mark.parametrize("mask", [0o000, 0o777], indirect=True)
@pytest.mark.usefixtures("mask")
def test_a_key_is_for_its_user_alone_whatever_the_mask_and_is_never_replaced(
    tmp_path: Path,
) -> None:
    path = tmp_path / "cluster.pem"
    write_certificate(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    before = path.read_bytes()
    with pytest.raises(ClusterError, match="is there already"):
        write_certificate(path)
    assert path.read_bytes() == before


def test_both_sides_must_show_the_certificate_also_where_rules_are_strict(pem: Path) -> None:
    security = security_from(pem)
    assert security.require_encryption
    sides = [
        security.get_connection_args("client")["ssl_context"],
        security.get_listen_args("scheduler")["ssl_context"],
    ]
    for context in sides:
        assert context.verify_mode is ssl.CERT_REQUIRED
        context.verify_flags |= ssl.VERIFY_X509_STRICT  # as newer Pythons do
    assert shaken(*sides)


def shaken(client: ssl.SSLContext, server: ssl.SSLContext) -> bool:
    """Whether both sides come to an agreement, in memory. Raises `ssl.SSLError`."""
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(back, there),
        server.wrap_bio(there, back, server_side=True),
    ]
    for end in ends * 3:
        try:
            end.do_handshake()
        except ssl.SSLWantReadError:
            continue
    return all(end.version() for end in ends)


def _without(marker: str) -> Callable[[Path], None]:
    """Leaves only one half of what a PEM file holds."""

    def cut(pem: Path) -> None:
        parts = pem.read_text("ascii").split("-----BEGIN ")
        pem.write_text("".join(f"-----BEGIN {p}" for p in parts if p and marker not in p), "ascii")

    return cut


def _swap(pem: Path) -> None:
    other = pem.with_name("other.pem")
    write_certificate(other)
    key = pem.read_text("ascii").split("-----BEGIN CERT")[0]
    pem.write_text(key + "-----BEGIN CERT" + other.read_text("ascii").split("-----BEGIN CERT")[1])


def _expire(pem: Path) -> None:
    pem.write_bytes(certificates._pem(datetime.now(UTC) - certificates.LASTS - timedelta(days=1)))


def _damage(pem: Path) -> None:
    pem.write_text(pem.read_text("ascii").replace("MI", "!!"), "ascii")


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (Path.unlink, "there is no such file.*cluster init"),
        (lambda pem: pem.chmod(0o640), "mode is 0640, expected 0600 .chmod 600 "),
        (lambda pem: pem.chmod(0o604), "mode is 0604"),
        (_without("CERTIFICATE"), "a key and a certificate in one"),
        (_without("KEY"), "a key and a certificate in one"),
        (_swap, "the certificate of another"),
        (_expire, r"expired on \d{4}-"),
        (_damage, "is damaged"),
        (lambda pem: (pem.unlink(), pem.mkdir()), "cannot be read: Is a directory"),
    ],
)
def test_a_key_that_is_not_right_is_refused(
    pem: Path, harm: Callable[[Path], object], said: str
) -> None:
    harm(pem)
    with pytest.raises(ClusterError, match=said) as refused:
        security_from(pem)
    assert str(pem) in str(refused.value)


def test_a_key_of_roots_may_be_lent_to_a_group_as_a_secret_of_kubernetes_is(
    pem: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pem.chmod(0o440)
    values = list(pem.stat())
    values[stat.ST_UID] = 0
    monkeypatch.setattr(os, "fstat", lambda _: os.stat_result(values))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert check_certificate(pem) > datetime.now(UTC)


@pytest.mark.parametrize(
    ("held", "said"),
    [
        (None, "no scheduler runs for this cluster"),
        ("", "holds no address"),
        ("[]", "holds no address"),
        ("[" * 100_000, "holds no address"),
        ('{"address": 3}', "holds no address"),
        ('{"address": "tcp://127.0.0.1:8786"}', "is not encrypted.*runs code as you"),
        ('{"address": "tls://host"}', "is no tls://HOST:PORT"),
        ('{"address": "tls://host:99999"}', "is no tls://HOST:PORT"),
        ('{"address": "https://host:80"}', "is no tls://HOST:PORT"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_scheduler_file_that_is_not_right_is_refused(
    tmp_path: Path, held: str | None, said: str
) -> None:
    folder = folder_of(tmp_path)
    if held is not None:
        folder.scheduler_file.write_text(held, "utf-8")
    with pytest.raises(ClusterError, match=said):
        scheduler_address(folder)


def test_a_folder_may_be_named_by_what_is_in_it(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    write_address(folder, "tls://[::1]:8786")
    assert scheduler_address(folder_of(folder.scheduler_file)) == "tls://[::1]:8786"
    with pytest.raises(ClusterError, match="there is no such folder"):
        folder_of(tmp_path / "nowhere")
