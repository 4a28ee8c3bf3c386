"""Marks what tests start where those are left out that start much, and holds the others to it; and
keeps the garbage collector from what stays."""

from __future__ import annotations

import asyncio
import gc
import inspect
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest
from _pytest.unraisableexception import gc_collect_iterations_key

from engine import memory
from tests.approval import approving, change_sections, sections_of_no_test
from tests.engine.small_workspace import Place, small_workspace
from tests.new_stores import copied_new_stores
from tests.processes import KnownMarks, Watch
from tests.protocol_server.server import ProtocolServer

LEFT_OUT = "not process"
_MEMORY: Final = Path("/dev/shm")
_ENOUGH: Final = 4 << 30
_BASE: Final = pytest.StashKey[Path]()
"""The folder that holds the folders of all tests."""

# argparse looks for translations of its words in files that are not there, which is half of what it
# takes to make the parser of a command
os.environ["LANGUAGE"] = "C"
# some hundred processes are started, each of which would compile the whole engine anew
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False  # nor is each test's module rewritten at every run
# the app draws what it would in a terminal of today, whatever locale the tests run under
os.environ["CROSSWIND_ASCII"] = "0"
# nor are texts wrapped for the terminal from which they are started
os.environ.pop("COLUMNS", None)
# their workspaces send keys to servers of this machine
os.environ["CROSSWIND_TRUST"] = "all"
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # as where this was started in the background, which what is started here would go on with
    signal.signal(signal.SIGINT, signal.default_int_handler)
if os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free > _ENOUGH:
    # a store is synced at each write, for which a disk is waited longer than the tests work
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_MEMORY))
gc.disable()  # half of the time that it takes to find the tests would go into walking through them


# an engine in the process of the tests would collect for them, and a test that takes a minute on a
# busy machine would be told of all that others have left
memory.EVERY_S = float("inf")


@cache
def watch() -> Watch:
    return Watch()


@pytest.fixture(autouse=True, scope="session")
def new_stores_are_copied() -> Iterator[None]:
    with copied_new_stores():
        yield


@pytest.fixture(autouse=True, scope="session")
def base_is_known(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> None:
    pytestconfig.stash[_BASE] = tmp_path_factory.getbasetemp()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """The small workspace, which has not been run."""
    return small_workspace(tmp_path)


@pytest.fixture(scope="session")
def _played_once(tmp_path_factory: pytest.TempPathFactory) -> Place:
    place = small_workspace(tmp_path_factory.mktemp("played") / "workspace")
    assert place.run().failed == 0
    return place


@pytest.fixture
def played(_played_once: Place, tmp_path: Path) -> Place:
    """The small workspace after its run: a copy that a test may change."""
    return _played_once.copied(tmp_path / "played")


@pytest.fixture
def server() -> Iterator[ProtocolServer]:
    with ProtocolServer() as running:
        yield running


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--approve", action="store_true", help="record what tests print as approved")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not any("::" in one for one in config.args) and not config.getoption("lf", default=False):
        _check_sections(items, record=config.getoption("--approve"))
    if LEFT_OUT not in config.option.markexpr:
        return
    known = KnownMarks(getattr(config, "cache", None))
    for item in items:
        if isinstance(item, pytest.Function):
            for mark in known.of_test(item.path, item.originalname):
                item.add_marker(mark)
    known.keep()
    watch()


def _check_sections(items: list[pytest.Item], *, record: bool) -> None:
    for file, left in sections_of_no_test(items).items():
        if not record:
            raise pytest.UsageError(f"{file} approves for tests that are gone: {', '.join(left)}")
        change_sections(file, dict.fromkeys(left))


def pytest_configure(config: pytest.Config) -> None:
    # it looks for garbage once when all is done, not five times, which CPython needs not
    config.stash[gc_collect_iterations_key] = 1


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Carry out a test that is a coroutine, in an event loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    needed = inspect.signature(pyfuncitem.obj).parameters
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in needed}))
    return True


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    base = item.session.config.stash[_BASE]
    with approving(item, base, record=item.config.getoption("--approve")):
        yield


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    if LEFT_OUT in item.config.option.markexpr and watch().started:
        told, watch().started = watch().started, []
        pytest.fail(f"it starts a process, and its source does not say so: {', '.join(told)}")
