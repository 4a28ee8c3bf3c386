"""`cluster:` of `config.yaml`: the Dask cluster whose workers make the calls."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Annotated, Final
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from engine.config.values import Shape, Words
from engine.config.wording import quotable

_SCHEMES: Final = ("tls", "tcp")


def is_address(scheduler: str) -> bool:
    """Whether this is the address of a scheduler, not the path of a scheduler file."""
    return "://" in scheduler


def checked_address(address: str) -> str:
    """Return the address: `tls://HOST:PORT`, or `tcp://HOST:PORT` on the loopback interface. Raises
    `ValueError` for any other."""
    scheme, host, port = _split_address(address)
    if not host or not port or scheme not in _SCHEMES:
        raise ValueError(
            f"found `{quotable(address)}`, expected tls://HOST:PORT, or the path of the file that "
            "`dask scheduler --scheduler-file` writes"
        )
    if scheme == "tcp" and not _is_loopback(host):
        raise ValueError(
            f"`{quotable(address)}` is neither encrypted nor on this machine: whoever reaches such "
            "a scheduler runs code as you; start scheduler and workers with TLS and write "
            "tls://HOST:PORT"
        )
    return address


def _split_address(address: str) -> tuple[str, str | None, int | None]:
    """Scheme, host and port; without host and port where it is invalid."""
    try:
        parts = urlsplit(address)
        return parts.scheme, parts.hostname, parts.port
    except ValueError:
        return "", None, None


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _checked_scheduler(written: str) -> str:
    return checked_address(written) if is_address(written) else written


class ClusterSettings(Shape):
    """A Dask cluster whose workers make the calls. TLS is as in Dask's own configuration."""

    scheduler: Annotated[Words, AfterValidator(_checked_scheduler)] = Field(
        description="`tls://HOST:PORT`, or a path"
    )
    """Its scheduler: the address, or the path of the file that `dask scheduler --scheduler-file`
    writes, relative to the workspace. It must use TLS or be on this machine."""
