"""nginx in front of the tests' own server: buffering, gzip, TLS with a CA of its own, reloads while
replies stream, and its 502 pages in place of every second answer."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.protocol_server.server import ProtocolServer
from tests.protocol_server.settings import Settings
from tests.real.runs import Case, NotTriedError, free_port, run, server

PACE: Final = Settings(latency_ms=20, tokens_per_second=120)
"""A reply streams for about half a second, so that a reload meets streams."""
RELOAD_EVERY_S: Final = 0.3
_ROLES: Final = {name: {"name": name} for name in ("user", "evaluator")}
_CASES: Final = {
    "as it is": "",
    "buffered": "proxy_buffering on; proxy_buffers 8 64k;",
    "gzip": "gzip on; gzip_min_length 1; gzip_proxied any; "
    "gzip_types text/event-stream application/json;",
    "TLS, own CA": "",
    "reloads": "",
    "502 pages": "proxy_next_upstream off;",
}
_SITE: Final = """
server {{
  listen 127.0.0.1:{port}{tls};
  location = /up {{ return 200; }}
  location / {{ proxy_pass http://{upstream}; proxy_http_version 1.1; {more} }}
}}
"""
_ALL: Final = """
{user} daemon off; pid {folder}/pid; error_log {folder}/errors;
events {{ worker_connections 1024; }}
http {{
  access_log off; proxy_buffering off;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxied;
  fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  upstream sound {{ server {sound}; }}
  upstream half {{ server {sound} max_fails=0; server 127.0.0.1:{nobody} max_fails=0; }}
  {sites}
}}
"""


def lines(folder: Path) -> Iterator[str]:
    """Raises `NotTriedError`."""
    program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if program is None:
        raise NotTriedError("there is no nginx here; a package of the system's has it")
    said = subprocess.run([program, "-v"], capture_output=True, text=True, check=True).stderr
    label = said.strip().removeprefix("nginx version: ").replace("/", " ")
    certificate = _certificate(folder)
    with ProtocolServer(PACE) as behind:
        ports = {name: free_port() for name in _CASES}
        config = folder / "nginx.conf"
        config.write_text(_config(folder, behind, ports), "utf-8")
        command = [program, "-p", str(folder), "-c", str(config)]
        with server(command, f"http://127.0.0.1:{ports['as it is']}/up", folder / "log"):
            for source, tail in (("openai", "/v1"), ("anthropic", "")):
                for name, port in ports.items():
                    scheme = "https" if name.startswith("TLS") else "http"
                    url = f"{scheme}://127.0.0.1:{port}{tail}"
                    case = Case(name, source, url, "steadfast", {}, _ROLES)
                    with _trusted(certificate), _reloads(command, wanted=name == "reloads"):
                        yield run(folder / f"{source}-{name}".replace(" ", "-"), label, case)


def _config(folder: Path, behind: ProtocolServer, ports: dict[str, int]) -> str:
    tls = f" ssl; ssl_certificate {folder}/cert.pem; ssl_certificate_key {folder}/key.pem"
    sites = [
        _SITE.format(
            port=port,
            tls=tls if name.startswith("TLS") else "",
            upstream="half" if name.startswith("502") else "sound",
            more=_CASES[name],
        )
        for name, port in ports.items()
    ]
    return _ALL.format(
        user="user root;" if os.geteuid() == 0 else "",
        folder=folder,
        sound=behind.anthropic_url.removeprefix("http://"),
        nobody=free_port(),
        sites="".join(sites),
    )


def _certificate(folder: Path) -> Path:
    """One that signs itself, so that nobody trusts it who is not told to."""
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    words += ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    words += ["-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")]
    try:
        subprocess.run(words, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise NotTriedError(f"openssl made no certificate: {error}") from None
    return folder / "cert.pem"


@contextmanager
def _trusted(certificate: Path) -> Iterator[None]:
    before = os.environ.get("SSL_CERT_FILE")
    os.environ["SSL_CERT_FILE"] = str(certificate)
    try:
        yield
    finally:
        if before is None:
            del os.environ["SSL_CERT_FILE"]
        else:
            os.environ["SSL_CERT_FILE"] = before


@contextmanager
def _reloads(command: list[str], *, wanted: bool) -> Iterator[None]:
    """The configuration is read again and again while the block lasts."""
    ended = threading.Event()

    def reload() -> None:
        while not ended.wait(RELOAD_EVERY_S):
            subprocess.run([*command, "-s", "reload"], capture_output=True, check=True)

    thread = threading.Thread(target=reload)
    if wanted:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        if wanted:
            thread.join()
