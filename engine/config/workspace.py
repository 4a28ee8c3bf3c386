"""A workspace: the folder of a configuration, its benchmarks and its store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from engine.benchmark import name_fault
from engine.branches import Branch, folder_of
from engine.config.wording import did_you_mean, quotable
from engine.errors import InputError, Problem
from engine.files import read_regular

if TYPE_CHECKING:
    from engine.config.schema import Config

CONFIG_FILE: Final = "config.yaml"
BENCHMARKS_FOLDER: Final = "benchmarks"
BENCHMARK_FILE: Final = "benchmark.yaml"
STORE_FILE: Final = "crosswind.db"
LOG_FILE: Final = "crosswind.log"

_LONG: Final = 100_000
"""Bytes: a larger file is parsed without a look at its text first."""


@dataclass(frozen=True, slots=True)
class Workspace:
    """A folder with `config.yaml` and `benchmarks/<name>/`."""

    root: Path

    @property
    def config_path(self) -> Path:
        return self.root / CONFIG_FILE

    @property
    def benchmarks_dir(self) -> Path:
        return self.root / BENCHMARKS_FOLDER

    def benchmark_names(self) -> tuple[str, ...]:
        """The names of all usable benchmarks, in alphabetical order. Raises `InputError` where
        their folder cannot be read."""
        return tuple(name for name, fault in self._folders() if fault is None)

    def benchmark_problems(self) -> tuple[Problem, ...]:
        """A problem for each folder with a benchmark that cannot be used."""
        return tuple(
            Problem(
                fault,
                self.benchmarks_dir / quotable(name),
                hint="rename the folder, or move it away",
            )
            for name, fault in self._folders()
            if fault is not None
        )

    def definition_path(self, name: str) -> Path:
        """The path of a benchmark's `benchmark.yaml`, which need not exist.

        Raises `InputError` for an invalid name, and for a path that leads out of the workspace.
        """
        if Branch.parse(name) is None:
            check_name(name)
        path = self.root / folder_of(name) / BENCHMARK_FILE
        if not self._is_inside(path):
            what = "this is a link that leads out of the workspace"
            raise InputError(Problem(what, path, hint="put the folder itself there, not a link"))
        return path

    def require_benchmarks(self, names: Sequence[str]) -> list[str]:
        """The names without repetitions, if all of them exist; all benchmarks if none is given.

        Raises `InputError` with a problem for each that does not.
        """
        known = self.benchmark_names()
        if not names and not known:
            if unusable := self.benchmark_problems():
                raise InputError(unusable)
            hint = "make one with `crosswind new NAME`"
            raise InputError(Problem("there is no benchmark yet", self.benchmarks_dir, hint=hint))
        problems = [
            problem
            for name in dict.fromkeys(names)
            if (problem := self._missing(name, known)) is not None
        ]
        if problems:
            raise InputError(problems)
        return list(dict.fromkeys(names)) or list(known)

    def store_path(self, config: Config) -> Path:
        """The path of the store: the configuration's `store`, relative to the workspace."""
        return self._store_path(config.store, config.path)

    def written_store_path(self, config_path: Path) -> Path:
        """As `store_path`, from the file alone, without checking the rest of it. Raises
        `InputError`."""
        if not _may_say(config_path, "store"):
            return self._store_path(None, config_path)
        # 18 ms to load, which the first frame would wait for, and most files do not set `store`
        from engine.config.yaml_text import read_yaml

        written = read_yaml(config_path).value(("store",))
        return self._store_path(
            written if isinstance(written, str) and written.strip() else None, config_path
        )

    def _store_path(self, written: str | None, config_path: Path) -> Path:
        if written is None:
            return self.root / STORE_FILE
        try:
            # an absolute path on the right replaces the one on the left
            path = self.root / Path(written).expanduser()
        except RuntimeError:
            what = "found `~` for a person whose home folder is not known, expected a path"
            raise InputError(Problem(what, config_path, key="store")) from None
        # the slash tells a folder that does not exist yet from a file
        is_folder = written.endswith("/") or path.is_dir()
        return path / STORE_FILE if is_folder else path

    def _missing(self, name: str, known: Sequence[str]) -> Problem | None:
        if name in known:
            return None
        if Branch.parse(name) is not None:
            return self._missing_branch(name)
        fault = name_problem(name)
        if fault is not None:
            return fault
        unusable = dict(self._folders()).get(name)
        if unusable is not None:
            return Problem(unusable, self.benchmarks_dir / name)
        if (self.benchmarks_dir / name).is_dir():
            what = f"the folder of the benchmark `{name}` has no {BENCHMARK_FILE}"
            return Problem(what, self.benchmarks_dir / name, hint="write one, or copy another")
        hint = did_you_mean(name, known) if known else "make it with `crosswind new NAME`"
        return Problem(f"there is no benchmark `{name}`", self.benchmarks_dir, hint=hint)

    def _missing_branch(self, name: str) -> Problem | None:
        path = self.definition_path(name)
        if path.exists():
            return None
        hint = "`crosswind validate` makes one"
        return Problem(f"there is no validation run `{name}`", path.parent, hint=hint)

    def _folders(self) -> list[tuple[str, str | None]]:
        """The name of every folder with a benchmark, and why it is unusable; None if it is not."""
        try:
            folders = sorted(self.benchmarks_dir.iterdir())
            names = [folder.name for folder in folders if (folder / BENCHMARK_FILE).exists()]
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            what = f"this folder cannot be read: {error.strerror or 'unknown reason'}"
            raise InputError(Problem(what, self.benchmarks_dir)) from None
        seen: dict[str, str] = {}
        return [(name, self._folder_fault(name, seen)) for name in names if name[0] != "."]

    def _folder_fault(self, name: str, seen: dict[str, str]) -> str | None:
        fault = name_fault(name)
        if fault is not None:
            return f"this folder cannot be a benchmark: {fault}"
        path = self.benchmarks_dir / name / BENCHMARK_FILE
        if not self._is_inside(path):
            if not path.is_file() and not path.is_dir():
                return f"its {BENCHMARK_FILE} leads to a pipe or a device, and is not read"
            return "this benchmark is a link that leads out of the workspace"
        # on disks of macOS and Windows both names are one folder
        twin = seen.setdefault(name.casefold(), name)
        if twin != name:
            return f"the names `{twin}` and `{name}` differ in case only, which is not enough"
        return None

    def _is_inside(self, path: Path) -> bool:
        try:
            # both resolved, as the workspace itself may be reached through a link
            return path.resolve().is_relative_to(self.root.resolve())
        except (OSError, RuntimeError):
            return False


def find_workspace(start: Path) -> Workspace:
    """The workspace that is or contains `start`. Raises `InputError` where there is none."""
    folder = start.absolute()
    if not _is_folder(folder):
        raise InputError(Problem("there is no such folder", Path(quotable(str(start)))))
    # the nearest first, as a workspace may be inside another one
    for candidate in (folder, *folder.parents):
        if (candidate / CONFIG_FILE).is_file() or (candidate / BENCHMARKS_FOLDER).is_dir():
            return Workspace(candidate)
    raise InputError(
        Problem(
            f"neither this folder nor one around it has a {CONFIG_FILE} or {BENCHMARKS_FOLDER}/",
            folder,
            hint="make a workspace with `crosswind init DIR`, or look at one with `crosswind demo`",
        )
    )


def check_name(name: str) -> None:
    """Raises `InputError` for an invalid name of a benchmark."""
    problem = name_problem(name)
    if problem is not None:
        raise InputError(problem)


def name_problem(name: str) -> Problem | None:
    """Why this is an invalid name of a benchmark; None where it is valid."""
    fault = name_fault(name)
    if fault is None:
        return None
    return Problem(f"`{quotable(name)}` cannot be the name of a benchmark: {fault}")


def _may_say(path: Path, key: str) -> bool:
    """Whether a YAML file may have this key: whether its text, outside of comments, contains the
    key or an escape."""
    try:
        if not path.is_file() or path.stat().st_size > _LONG:
            return True
        lines = read_regular(path).splitlines()
    except OSError:
        return True
    uncommented = [line for line in lines if not line.lstrip().startswith(b"#")]
    return any(key.encode() in line or b"\\" in line for line in uncommented)


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False
