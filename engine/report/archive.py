"""An archive of a study: its files in one ZIP, with a checksum of each and without keys; written,
and unpacked if it is whole."""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Any, Final

from engine.errors import InputError, Problem
from engine.files import read_regular
from engine.report.writing import Hide

MANIFEST: Final = "archive.json"
VERSION: Final = 1
_DAY: Final = (1980, 1, 1, 0, 0, 0)
"""Of every file, so that the same study gives the same archive."""
MOST_BYTES: Final = 20 * 2**30
"""Of all files together, unpacked: several times the largest study."""
_MOST_NAMED: Final = 10
_PIECE: Final = 2**20


def archived_files(root: Path, folders: Iterable[Path]) -> list[Path]:
    """`config.yaml` and all files of the benchmarks' folders."""
    found = (path for folder in folders for path in sorted(folder.rglob("*")))
    kinds = {".json", ".jsonl", ".yaml"}
    return [
        root / "config.yaml",
        *(one for one in found if one.suffix in kinds and one.is_file() and not one.is_symlink()),
    ]


def archive_pieces(paths: Iterable[Path], root: Path, hide: Hide) -> Iterator[bytes]:
    """Yield the bytes of an archive of these files. Raises `OSError`."""
    checksums: dict[str, str] = {}
    made = _Pieces()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in paths:
            name = path.relative_to(root).as_posix()
            content = str(hide(read_regular(path).decode("utf-8"))).encode()
            checksums[name] = sha256(content).hexdigest()
            archive.writestr(zipfile.ZipInfo(name, _DAY), content, zipfile.ZIP_DEFLATED)
            yield made.take()
        manifest = {"crosswind_archive": VERSION, "sha256": checksums}
        text = json.dumps(manifest, indent=1) + "\n"
        archive.writestr(zipfile.ZipInfo(MANIFEST, _DAY), text, zipfile.ZIP_DEFLATED)
    yield made.take()


class _Pieces(io.RawIOBase):
    """A file that keeps what is written until it is taken; as a pipe, it has no positions."""

    def __init__(self) -> None:
        self.kept = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.kept += data
        return len(data)

    def take(self) -> bytes:
        taken, self.kept = bytes(self.kept), bytearray()
        return taken


def is_archive(path: Path) -> bool:
    """Whether it is an archive of `crosswind export archive`, whatever its name; others' ZIP files
    are not."""
    if not path.is_file():
        return False
    try:
        with zipfile.ZipFile(path) as archive:
            return MANIFEST in archive.namelist()
    except (OSError, zipfile.BadZipFile) as error:
        if path.suffix != ".zip":
            return False
        raise InputError(Problem(f"this is no whole ZIP file: {error}", path)) from error


def unpack(path: Path, into: Path) -> None:
    """Write all of its files into a folder. Raises `InputError` that names what is missing or has
    changed since it was made, and then nothing of it may be used."""
    try:
        with zipfile.ZipFile(path) as archive:
            checksums = _checksums(path, archive)
            sizes = sum(one.file_size for one in archive.infolist())
            if sizes > MOST_BYTES:
                raise InputError(Problem(f"this would unpack to {sizes:,} bytes", path))
            there = set(archive.namelist())
            missing = [f"{name} is missing" for name in checksums if name not in there]
            whole = {name for name in checksums if name in there}
            changed = [
                f"{name} is not as it was written"
                for name in sorted(whole)
                if _unpacked(archive, name, into) != checksums[name]
            ]
    except (OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise InputError(Problem(f"this archive is damaged: {error}", path)) from error
    faults = [*missing, *changed]
    if faults:
        more = [f"and {len(faults) - _MOST_NAMED} more"] if len(faults) > _MOST_NAMED else []
        what = "; ".join([*faults[:_MOST_NAMED], *more])
        hint = "nothing was imported; get the archive again"
        raise InputError(Problem(f"this archive is incomplete: {what}", path, hint=hint))


def _checksums(path: Path, archive: zipfile.ZipFile) -> Mapping[str, str]:
    if archive.getinfo(MANIFEST).file_size > MOST_BYTES // 1000:
        raise InputError(Problem(f"{MANIFEST} is too long", path))
    try:
        manifest: Any = json.loads(archive.read(MANIFEST))
        version, checksums = manifest["crosswind_archive"], manifest["sha256"]
        unfit = [name for name in checksums if not _is_fit(name)]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(Problem(f"{MANIFEST} cannot be read", path)) from error
    if version != VERSION:
        hint = "a newer Crosswind wrote it; import it with that version"
        raise InputError(Problem(f"this archive is of version {version!r}", path, hint=hint))
    if unfit:
        raise InputError(Problem(f"a name in {MANIFEST} leads elsewhere: {unfit[0][:100]!r}", path))
    result: Mapping[str, str] = checksums
    return result


def _is_fit(name: str) -> bool:
    parts = PurePosixPath(name).parts
    is_inside = not name.startswith("/") and ".." not in parts and "\\" not in name
    return is_inside and (name == "config.yaml" or parts[:1] == ("benchmarks",))


def _unpacked(archive: zipfile.ZipFile, name: str, into: Path) -> str:
    """The checksum of what was written."""
    place = into / name
    place.parent.mkdir(parents=True, exist_ok=True)
    digest = sha256()
    with archive.open(name) as source, place.open("xb") as file:
        while piece := source.read(_PIECE):
            digest.update(piece)
            file.write(piece)
    return digest.hexdigest()
