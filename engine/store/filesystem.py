"""Whether a store may lie where it is meant to: a network file system breaks SQLite's promises."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import sqlite3
import stat
import subprocess
from pathlib import Path
from typing import Final

from engine.errors import StoreError

_NETWORK: Final = frozenset(
    "9p afpfs afs beegfs ceph cifs coda davfs fuse.davfs2 fuse.glusterfs fuse.rclone fuse.s3fs "
    "fuse.sshfs glusterfs lustre ncpfs nfs nfs3 nfs4 smb smb2 smb3 smbfs webdav".split()
)
_MOUNTS: Final = Path("/proc/mounts")
_TELL_SECONDS: Final = 2.0
_TOLD = re.compile(r"(.+) on (/.*) \((\w[\w.]*)[,)]")
"""How `mount` says it where there is no `/proc`: `what on where (kind, option, option)`."""


def mounts_text() -> str:
    """What is mounted where, as in `/proc/mounts`; nothing where the system does not tell it."""
    try:
        return _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return mounts_as_told(_told())


def mounts_as_told(told: str) -> str:
    """What `mount` prints on a Mac, as it would stand in `/proc/mounts`."""
    found = (_TOLD.match(line) for line in told.splitlines())
    lines = (
        f"{_escaped(one[1])} {_escaped(one[2])} {one[3]} - 0 0" for one in found if one is not None
    )
    return "\n".join(lines)


def _told() -> str:
    try:
        answer = subprocess.run(
            ["/sbin/mount"],
            capture_output=True,
            text=True,
            errors="surrogateescape",
            check=False,
            timeout=_TELL_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return answer.stdout


def refuse_network(path: Path, mounts: str) -> None:
    """Raises `StoreError` where `path` would lie on a network file system."""
    kind = file_system(path, mounts)
    if kind in _NETWORK:
        raise StoreError(
            f"{path} would lie on a network file system ({kind}), where locks and the store's log "
            "do not hold: move the workspace to a local disk, or name a local file as "
            "`store: PATH` in config.yaml"
        )


def file_system(path: Path, mounts: str) -> str | None:
    """The kind of file system under `path`; None where it cannot be told."""
    place = Path(os.path.realpath(path))  # which a link to itself does not trouble
    places = {place, *place.parents}
    deepest, kind = -1, None
    for line in mounts.splitlines():
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        mounted = Path(_unescaped(fields[1]))
        # of two mounts on one place the later one is seen
        if mounted in places and len(mounted.parts) >= deepest:
            deepest, kind = len(mounted.parts), fields[2]
    return kind


_CODES: Final = (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\"))


def _unescaped(field: str) -> str:
    # the backslash last here and first when escaping, or one that stands for itself would be read
    # as the begin of a code
    for code, character in _CODES:
        field = field.replace(code, character)
    return field


def _escaped(field: str) -> str:
    for code, character in reversed(_CODES):
        field = field.replace(character, code)
    return field


def keep_private(database: Path) -> None:
    """Take a database of this user's, and what SQLite keeps beside it, from everybody else. It is
    not opened for that: closing it again would give up SQLite's locks."""
    real = database.resolve()
    for suffix in ("", "-wal", "-shm"):
        keep_file_private(real.with_name(real.name + suffix))


def keep_file_private(path: Path) -> None:
    """Take a file of this user's from everybody else, if there is one."""
    with contextlib.suppress(OSError):  # not there, or of a file system without modes
        found = path.lstat()
        is_ours = stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid()
        if is_ours and found.st_mode & 0o077:
            path.chmod(0o600)


# EFBIG: a limit on the size of files (RLIMIT_FSIZE), which Python's ignored SIGXFSZ turns into an
# error
_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_CANNOT_GROW: Final = frozenset(
    {sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_IOERR_SHMSIZE}
)
"""What SQLite makes of a quota, a limit on the size of files, and a disk that fills while it
syncs."""


def lacks_room(error: Exception) -> bool:
    """Whether trying again helps, once there is room."""
    if isinstance(error, OSError):
        return error.errno in _NO_ROOM
    code = getattr(error, "sqlite_errorcode", None)
    return code == sqlite3.SQLITE_FULL or code in _CANNOT_GROW


def room_advice(path: Path, error: Exception) -> str:
    """What to do so that there is room for `path`."""
    if getattr(error, "sqlite_errorcode", None) in _CANNOT_GROW:
        return f"free some space on {mount_of(path)}, or raise the quota or limit on file sizes"
    return f"free some space on {mount_of(path)}"


def mount_of(path: Path) -> Path:
    """The folder under which the file system of `path` is seen."""
    place = path.resolve()
    while not place.is_mount() and place != place.parent:
        place = place.parent
    return place
