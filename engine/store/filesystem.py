"""Checks where a store lies: network file systems break SQLite's guarantees, disks can be full."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import sqlite3
import stat
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from engine.errors import StoreError

_NETWORK: Final = frozenset(
    "9p afpfs afs beegfs ceph cifs coda davfs fuse.davfs2 fuse.glusterfs fuse.rclone fuse.s3fs "
    "fuse.sshfs glusterfs lustre ncpfs nfs nfs3 nfs4 smb smb2 smb3 smbfs webdav".split()
)
_MOUNTS: Final = Path("/proc/mounts")
_TIMEOUT_S: Final = 2.0
_MOUNT_LINE = re.compile(r".+ on (/.*) \((\w[\w.]*)[,)]")
"""The output of `mount` on a system without `/proc`: `what on where (kind, option, option)`."""
_CODE: Final = re.compile(r"\\([0-7]{3})")
"""A character of a path in `/proc/mounts`, by its octal number."""

Mounts = Sequence[tuple[str, str]]
"""Each mounted place with the type of its file system, in the order of mounting."""


def current_mounts() -> Mounts:
    """Return what is mounted; empty if the system does not tell."""
    try:
        return mounts_of_linux(_MOUNTS.read_text(encoding="utf-8", errors="surrogateescape"))
    except OSError:
        return mounts_of_a_mac(_mount_output())


def mounts_of_linux(text: str) -> Mounts:
    """Read the text of `/proc/mounts`."""
    lines = (line.split(" ") for line in text.splitlines())
    return [(_CODE.sub(_character, line[1]), line[2]) for line in lines if len(line) > 2]


def _character(code: re.Match[str]) -> str:
    return chr(int(code[1], 8))


def mounts_of_a_mac(output: str) -> Mounts:
    """Read the output of `mount` on a Mac."""
    found = map(_MOUNT_LINE.match, output.splitlines())
    return [(match[1], match[2]) for match in found if match is not None]


def _mount_output() -> str:
    try:
        answer = subprocess.run(
            ["/sbin/mount"],
            capture_output=True,
            text=True,
            errors="surrogateescape",
            check=False,
            timeout=_TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return answer.stdout


def refuse_network(path: Path, mounts: Mounts) -> None:
    """Raise `StoreError` if `path` is on a network file system."""
    kind = file_system(path, mounts)
    if kind in _NETWORK:
        raise StoreError(
            f"{path} would lie on a network file system ({kind}), where locks and the store's log "
            "do not hold: move the workspace to a local disk, or name a local file as "
            "`store: PATH` in config.yaml"
        )


def file_system(path: Path, mounts: Mounts) -> str | None:
    """Return the type of the file system under `path`; None if it is unknown."""
    place = Path(os.path.realpath(path))  # unlike `resolve`, it takes a link to itself
    places = {place, *place.parents}
    deepest, kind = -1, None
    for where, type_of in mounts:
        mounted = Path(where)
        # of two mounts on the same folder the later one is visible
        if mounted in places and len(mounted.parts) >= deepest:
            deepest, kind = len(mounted.parts), type_of
    return kind


def log_of(store: Path) -> Path:
    """Return the path of the store's write-ahead log."""
    return store.with_name(store.name + "-wal")


def has_log(store: Path) -> bool:
    """Whether there is a log that is not empty."""
    log = log_of(store)
    return log.is_file() and log.stat().st_size > 0


def keep_private(database: Path) -> None:
    """Make a database of this user, and SQLite's files beside it, readable by this user only. It is
    not opened, as closing it again would release SQLite's locks."""
    real = database.resolve()
    for suffix in ("", "-wal", "-shm"):
        keep_file_private(real.with_name(real.name + suffix))


def keep_file_private(path: Path) -> None:
    """Make a file of this user, if there is one, readable by this user only."""
    with contextlib.suppress(OSError):  # not there, or on a file system without modes
        status = path.lstat()
        is_ours = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()
        if is_ours and status.st_mode & 0o077:
            path.chmod(0o600)


# EFBIG: a limit on the size of files (RLIMIT_FSIZE), an error because Python ignores SIGXFSZ
_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_CANNOT_GROW: Final = frozenset(
    {sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_IOERR_SHMSIZE}
)
"""SQLite's codes for a quota, a limit on the size of files, and a disk that fills during a sync."""


def lacks_room(error: Exception) -> bool:
    """Whether the error goes away once there is room on the disk."""
    if isinstance(error, OSError):
        return error.errno in _NO_ROOM
    code = getattr(error, "sqlite_errorcode", None)
    return code == sqlite3.SQLITE_FULL or code in _CANNOT_GROW


def room_advice(path: Path, error: Exception) -> str:
    """Say how to make room for `path`."""
    if getattr(error, "sqlite_errorcode", None) in _CANNOT_GROW:
        return f"free some space on {mount_of(path)}, or raise the quota or limit on file sizes"
    return f"free some space on {mount_of(path)}"


def mount_of(path: Path) -> Path:
    """Return the mount point of the file system of `path`."""
    place = path.resolve()
    while not place.is_mount() and place != place.parent:
        place = place.parent
    return place
