"""Opens regular files only, and puts new ones in place in one move: there is the old one or the new
one, and never half.

Whoever opens a pipe waits, maybe for ever, and a device such as `/dev/zero` never ends.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from hashlib import blake2b, file_digest
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO, Final

from engine.errors import InputError, Problem
from engine.kill_points import KillPoint, reached

_CHUNK: Final = 1 << 20
_NO_FILE: Final = "it is a pipe or a device, expected a regular file"


def open_regular(path: Path) -> BufferedReader:
    """Raises `OSError`; its `strerror` is a phrase for people where this is no regular file."""
    return open(path, "rb", opener=_opened)


def read_pieces(path: str, *, links: bool = True) -> Iterator[bytes]:
    """What a file holds, in its order: most in one piece, which is the least that can be asked of
    the system for each of many small files. Raises `OSError` as `open_regular` does, and of `ELOOP`
    for a link where `links` are not gone after."""
    flags = os.O_RDONLY | os.O_CLOEXEC | (0 if links else os.O_NOFOLLOW)
    descriptor = _opened(path, flags)
    try:
        left = os.fstat(descriptor).st_size
        while piece := os.read(descriptor, asked := min(max(left, 0) + 1, _CHUNK)):
            yield piece
            left -= len(piece)
            if not left and len(piece) < asked:
                return  # nothing came behind what there was, so it need not be asked once more
    finally:
        os.close(descriptor)


def read_regular(path: Path) -> bytes:
    """All of it. Raises `OSError` as `open_regular` does."""
    with open_regular(path) as file:
        return file.read()


def _opened(path: str, flags: int) -> int:
    try:
        # O_NONBLOCK: to open a pipe that nobody writes to would wait; O_NOCTTY: a terminal in the
        # file's place must not become ours
        descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError as error:
        # also for a device without its driver, which is no file either
        if error.errno == errno.ENXIO:  # a socket
            raise OSError(errno.EINVAL, _NO_FILE, path) from error
        raise
    kind = os.fstat(descriptor).st_mode
    if stat.S_ISREG(kind) or stat.S_ISDIR(kind):  # a folder is refused by who called
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, _NO_FILE, path)


def digest_on_disk(path: Path) -> str | None:
    """32 hexadecimal digits; None where there is no such file. Raises `InputError` where it cannot
    be read."""
    try:
        with open_regular(path) as file:
            return file_digest(file, lambda: blake2b(digest_size=16)).hexdigest()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(Problem(f"cannot be read: {error.strerror}", path=path)) from error


def sync(path: Path) -> None:
    """Make durable what a file holds, or the names in a folder: a new name needs both."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class NewFile:
    """A file that is complete, but not in its place yet.

    It lies in the same folder, with `ending` behind its name. One of the same ending that a killed
    process left there is removed, so two processes that may write at once need different ones.
    """

    def __init__(
        self,
        place: Path,
        pieces: Iterable[str | bytes],
        *,
        ending: str = "tmp",
        mode: int | None = None,
    ) -> None:
        """`mode` are its permission bits; None for those that the user's mask leaves of a new file.
        Raises `OSError`, and whatever `pieces` raises; nothing is left then."""
        self.path = place.with_name(f".{place.name}.{ending}")
        """Where it is while it is not in its place."""
        self.path.unlink(missing_ok=True)
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY
        # private until it is whole, then given its mode: nobody else reads a half of it
        bits = 0o666 if mode is None else 0o600
        try:
            with os.fdopen(os.open(self.path, flags, bits), "wb", _CHUNK) as file:
                reached(KillPoint.WRITING_FILE)
                self.digest = _write(file, pieces)
                """As `digest_on_disk` gives it."""
                if mode is not None:
                    os.fchmod(file.fileno(), mode)
        except BaseException:
            self.discard()
            raise
        reached(KillPoint.WROTE_FILE)

    def move(self, place: Path) -> None:
        """Durably, in place of whatever is there. Raises `OSError`."""
        # in this order: a file that is moved before it is on disk may be empty after a power cut
        # (ext4 with delayed allocation), and a name is on disk when its folder is
        sync(self.path)
        reached(KillPoint.SYNCED_FILE)
        self.path.replace(place)
        reached(KillPoint.MOVED_FILE)
        sync(place.parent)
        reached(KillPoint.SYNCED_FOLDER)

    def discard(self) -> None:
        """Where it was not moved."""
        self.path.unlink(missing_ok=True)


def _write(file: BinaryIO, pieces: Iterable[str | bytes]) -> str:
    digest = blake2b(digest_size=16)
    for piece in pieces:
        content = piece.encode() if isinstance(piece, str) else piece
        digest.update(content)
        file.write(content)
    return digest.hexdigest()


def replace_file(
    path: Path, content: bytes, *, mode: int | None = None, durable: bool = True
) -> None:
    """Put `content` at `path`, where there is a file or none; after an `OSError`, what was there
    stands.

    `mode` are its permission bits; None to keep those of the file that is there. Not `durable`, it
    is not waited for the disk, so that a power cut may leave an empty file. Several processes may
    do this at once, and the last one wins.
    """
    if mode is None and path.exists():
        mode = stat.S_IMODE(path.stat().st_mode)
    new = NewFile(path, [content], ending=os.urandom(4).hex(), mode=mode)
    try:
        new.move(path) if durable else new.path.replace(path)
    finally:
        new.discard()
