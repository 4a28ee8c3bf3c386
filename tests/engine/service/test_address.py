"""Where an engine is reached, and who else may be there."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from engine.service.socket import (
    LONGEST_PATH,
    UnsafeFolderError,
    private_folder,
    socket_path,
    usable_socket,
)


def test_a_workspace_has_one_address_however_it_is_named(folder: Path) -> None:
    (folder / "workspace").mkdir()
    (folder / "link").symlink_to(folder / "workspace")
    address = socket_path(folder / "workspace", folder)
    assert address == socket_path(folder / "link", folder)
    assert address == socket_path(folder / "x" / ".." / "workspace", folder)
    assert address.parent == folder / f"crosswind-{os.getuid()}"
    assert len(address.stem) == 16
    assert address != socket_path(folder / "another", folder)


def test_an_address_that_is_too_long_for_a_socket_is_moved(folder: Path) -> None:
    address = socket_path(folder, Path("/var/folders") / ("x" * 60))
    assert address.parent == Path(f"/tmp/crosswind-{os.getuid()}")
    assert len(os.fsencode(address)) <= LONGEST_PATH


def test_the_folder_is_made_for_its_user_alone(folder: Path) -> None:
    previous = os.umask(0)
    try:
        private_folder(folder / "own")
    finally:
        os.umask(previous)
    assert (folder / "own").stat().st_mode & 0o777 == 0o700
    private_folder(folder / "own")


def test_a_folder_that_is_a_link_is_refused(folder: Path) -> None:
    (folder / "elsewhere").mkdir(mode=0o700)
    (folder / "own").symlink_to(folder / "elsewhere")
    with pytest.raises(UnsafeFolderError, match=r"is a link to another place.*TMPDIR"):
        private_folder(folder / "own")


def test_a_folder_that_is_open_to_others_is_refused(folder: Path) -> None:
    (folder / "own").mkdir()
    (folder / "own").chmod(0o750)
    with pytest.raises(UnsafeFolderError, match=r"open to others \(mode 0750"):
        private_folder(folder / "own")


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_another_user_is_refused(folder: Path) -> None:
    (folder / "own").mkdir(mode=0o700)
    os.chown(folder / "own", 12345, -1)
    with pytest.raises(UnsafeFolderError, match="belongs to user 12345"):
        private_folder(folder / "own")


def test_a_file_in_its_place_and_a_place_that_is_not_there_are_refused(folder: Path) -> None:
    (folder / "own").touch()
    with pytest.raises(UnsafeFolderError, match="is not a folder"):
        private_folder(folder / "own")
    with pytest.raises(UnsafeFolderError, match="cannot be made"):
        private_folder(folder / "missing" / "own")


def test_where_somebody_was_first_another_folder_is_taken(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Anybody may make the first one, where the system's temporary folder is everybody's."""
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setenv("HOME", str(folder / "home"))
    (folder / "home").mkdir()
    assert usable_socket(folder) == (socket_path(folder), None)
    (folder / f"crosswind-{os.getuid()}").chmod(0o755)
    path, why = usable_socket(folder)
    assert path == folder / "home" / ".cache" / "crosswind" / socket_path(folder).name
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert "open to others" in str(why)
    path.parent.chmod(0o755)
    path, why = usable_socket(folder)
    assert path.parent.parent == folder
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert usable_socket(folder)[0] != path
