"""Opens regular files only, and replaces files atomically: a reader sees the old file or the new
one, never half of one.

Opening a pipe may block for ever, and reading a device such as `/dev/zero` never ends.
"""

from __future__ import annotations

import codecs
import errno
import fcntl
import glob
import os
import shutil
import stat
from collections.abc import Iterable, Mapping
from contextlib import suppress
from hashlib import blake2b, file_digest
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO, Final

from engine.errors import InputError, Problem
from engine.kill_points import KillPoint, reached

_CHUNK: Final = 1 << 20
_NO_FILE: Final = "it is a pipe or a device, expected a regular file"
_STANDARD: Final = {"/dev/stdin": 0, "/dev/stdout": 1, "/dev/stderr": 2}
_DESCRIPTORS: Final = frozenset({"/dev/fd", "/proc/self/fd"})
_UTF16: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
MARKS: Final = (codecs.BOM_UTF8, *_UTF16)
"""The byte order marks with which texts begin that Windows programs wrote."""


def open_regular(path: Path) -> BufferedReader:
    """Open for reading. Raises `OSError`, with a readable `strerror` where it is no regular
    file."""
    return open(path, "rb", opener=_open_regular)


def read_regular(path: Path, *, links: bool = True, most: int | None = None) -> bytes:
    """Return the whole content. Raises `OSError` as `open_regular` does, with `ELOOP` for a
    symbolic link unless `links` are followed, and with `EFBIG` for more than `most` bytes."""
    flags = os.O_RDONLY | os.O_CLOEXEC | (0 if links else os.O_NOFOLLOW)
    descriptor, status = _open_with_status(str(path), flags)
    try:
        if most is not None and status.st_size > most:
            raise OSError(errno.EFBIG, f"it has more than {most >> 20} MB", str(path))
        with open(descriptor, "rb", buffering=0, closefd=False) as file:
            return file.read()
    finally:
        os.close(descriptor)


def _open_regular(path: str, flags: int) -> int:
    return _open_with_status(path, flags)[0]


def _open_with_status(path: str, flags: int) -> tuple[int, os.stat_result]:
    try:
        # O_NONBLOCK: opening a pipe without a writer would block; O_NOCTTY: a terminal at this path
        # must not become our controlling terminal
        descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError as error:
        if error.errno == errno.ENXIO:  # a socket, or a device without a driver
            raise OSError(errno.EINVAL, _NO_FILE, path) from error
        raise
    status = os.fstat(descriptor)
    kind = status.st_mode
    if stat.S_ISREG(kind) or stat.S_ISDIR(kind):  # reading a directory fails by itself
        return descriptor, status
    os.close(descriptor)
    raise OSError(errno.EINVAL, _NO_FILE, path)


def decoded_text(raw: bytes) -> str:
    """Decode UTF-8, or UTF-16 with a byte order mark, and drop the mark. Raises
    `UnicodeDecodeError`."""
    return raw.decode("utf-16" if raw.startswith(_UTF16) else "utf-8-sig")


def digest_on_disk(path: Path) -> str | None:
    """The BLAKE2b digest of a file, 32 hexadecimal digits; None where there is no such file. Raises
    `InputError` where it cannot be read."""
    try:
        with open_regular(path) as file:
            return file_digest(file, lambda: blake2b(digest_size=16)).hexdigest()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(Problem(f"cannot be read: {error.strerror}", path=path)) from error


def sync(path: Path) -> None:
    """Make a file's content durable, or a folder's entries: a new file needs both."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class NewFile:
    """A complete file that is not at its final path yet.

    It lies in the same folder, with `ending` appended to its name. A leftover with the same ending
    from a killed process is removed, so processes that may write at once need different endings.
    """

    def __init__(
        self,
        destination: Path,
        pieces: Iterable[str | bytes],
        *,
        ending: str = "tmp",
        mode: int | None = None,
        locked: bool = False,
    ) -> None:
        """Write `pieces`. `mode` are the permission bits; None are those of the file that there is,
        or else what the umask allows. With `locked`, others can tell until `discard` that its
        process is alive.

        Raises `OSError`, and whatever `pieces` raises; no file is left then.
        """
        self.path = destination.with_name(f".{destination.name}.{ending}")
        """The temporary path, until `move`."""
        self.path.unlink(missing_ok=True)
        self._lock: int | None = None
        if mode is None:
            with suppress(OSError):
                mode = stat.S_IMODE(destination.stat().st_mode)
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY
        # private until it is complete, then given its mode, so that nobody else reads half a file
        bits = 0o666 if mode is None else 0o600
        try:
            with os.fdopen(os.open(self.path, flags, bits), "wb", _CHUNK) as file:
                if locked:
                    self._lock = os.dup(file.fileno())
                    fcntl.flock(self._lock, fcntl.LOCK_EX)
                reached(KillPoint.WRITING_FILE)
                self.digest = _write(file, pieces)
                """The same digest as `digest_on_disk` gives."""
                if mode is not None:
                    os.fchmod(file.fileno(), mode)
        except BaseException:
            self.discard()
            raise
        reached(KillPoint.WROTE_FILE)

    def move(self, destination: Path) -> None:
        """Move the file to `destination` durably, replacing what is there. Raises `OSError`."""
        # in this order: a file that is renamed before it is synced may be empty after a power cut
        # (ext4 with delayed allocation), and the new name is durable once the folder is synced
        sync(self.path)
        reached(KillPoint.SYNCED_FILE)
        self.path.replace(destination)
        reached(KillPoint.MOVED_FILE)
        sync(destination.parent)
        reached(KillPoint.SYNCED_FOLDER)

    def discard(self) -> None:
        """Remove the temporary file, if it was not moved."""
        self.path.unlink(missing_ok=True)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


UNFINISHED: Final = ".unfinished-"
"""In the names of what is being written beside its place, with its process holding a lock on it."""


def remove_leftovers(folder: Path, name: str) -> None:
    """Remove what killed processes left of what was to be `name` in this folder."""
    for leftover in folder.glob(f".{glob.escape(name)}{UNFINISHED}*"):
        with suppress(OSError):  # somebody else's, or its process is alive
            lock = os.open(leftover, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if leftover.is_dir():
                    shutil.rmtree(leftover, ignore_errors=True)
                else:
                    leftover.unlink()
            finally:
                os.close(lock)


def _write(file: BinaryIO, pieces: Iterable[str | bytes]) -> str:
    digest = blake2b(digest_size=16)
    for piece in pieces:
        content = piece.encode() if isinstance(piece, str) else piece
        digest.update(content)
        file.write(content)
    return digest.hexdigest()


def replace_file(
    path: Path,
    content: bytes,
    *,
    mode: int | None = None,
    durable: bool = True,
    is_only_writer: bool = False,
) -> None:
    """Atomically write `content` to `path`. After an `OSError` the old content is unchanged.

    `mode` is as for `NewFile`. Unless `durable`, the
    call does not wait for the disk, so a power cut may leave an empty file. Several processes may
    do this at once, and the last one wins, unless this is the only writer: then what a killed
    process left of it is removed.
    """
    ending = "tmp" if is_only_writer else os.urandom(4).hex()
    new = NewFile(path, [content], ending=ending, mode=mode)
    try:
        new.move(path) if durable else new.path.replace(path)
    finally:
        new.discard()


def write_named(place: Path, pieces: Iterable[str | bytes]) -> None:
    """Write to a path that a person named. What a link leads to is replaced atomically, and the
    link stays; pipes, terminals and open descriptors such as `/dev/fd/3` are written to. Raises
    `OSError`, also for a socket, a disk and a link that leads back to itself."""
    if is_stream(place):
        descriptor = _descriptor(place)
        into = (
            os.open(place, os.O_WRONLY | os.O_NOCTTY) if descriptor is None else os.dup(descriptor)
        )
        with os.fdopen(into, "wb", _CHUNK) as stream:
            _write(stream, pieces)
        return
    real = Path(os.path.realpath(place))
    if real.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(place))
    if real.exists() and not real.is_file():
        raise OSError(errno.EINVAL, "it is there and is no file", str(place))
    remove_leftovers(real.parent, real.name)
    ending = f"{UNFINISHED.removeprefix('.')}{os.urandom(4).hex()}"
    new = NewFile(real, pieces, ending=ending, locked=True)
    try:
        new.move(real)
    finally:
        new.discard()


def is_stream(place: Path) -> bool:
    """Whether writing there replaces nothing: a pipe, a terminal, an open descriptor."""
    if _descriptor(place) is not None:
        return True
    try:
        mode = place.stat().st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)


def _descriptor(place: Path) -> int | None:
    if (standard := _STANDARD.get(str(place))) is not None:
        return standard
    number = place.name
    named = str(place.parent) in _DESCRIPTORS and number.isascii() and number.isdecimal()
    return int(number) if named and len(number) < 10 else None


def cache_folder(environ: Mapping[str, str]) -> Path | None:
    """Crosswind's folder in the user's cache, which may not exist; None where the user has no
    home."""
    home = Path(environ.get("XDG_CACHE_HOME", ""))
    try:
        return (home if home.is_absolute() else Path.home() / ".cache") / "crosswind"
    except RuntimeError:
        return None


def sha256_of(path: Path) -> str:
    """Raises `OSError`."""
    with open_regular(path) as file:
        return file_digest(file, "sha256").hexdigest()
