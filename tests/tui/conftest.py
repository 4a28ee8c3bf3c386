"""A stage for each test, before which the app is waited for until it is idle."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from tests.tui.idle import waiting_for_idleness
from tests.tui.theatre import USUAL, Pilot, Theatre
from tui.screens import results
from tui.state import feeds


@pytest.fixture(autouse=True, scope="session")
def waits_until_idle() -> Iterator[None]:
    with waiting_for_idleness():
        yield


@pytest.fixture(autouse=True, scope="session")
def works_in_no_time() -> Iterator[None]:
    """How long this machine took over something says nothing of when it is due by the theatre's
    clock."""
    with patch.object(feeds, "SHARE", 0), patch.object(results, "SHARE", 0):
        yield


@pytest.fixture
def pilot(theatre: Theatre) -> None:
    """What presses keys in the app, in a test that is performed in it; see `pytest_pyfunc_call`."""
    del theatre


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Perform a test that wants a pilot in the app, in a terminal of its `size` or its mark's."""
    needed = inspect.signature(pyfuncitem.obj).parameters
    if "pilot" not in needed:
        return None
    given: dict[str, Any] = {name: pyfuncitem.funcargs[name] for name in needed}
    mark = pyfuncitem.get_closest_marker("terminal")
    size = given.get("size", USUAL if mark is None else mark.args)

    async def script(pilot: Pilot) -> None:
        await pyfuncitem.obj(**{**given, "pilot": pilot})

    theatre = pyfuncitem.funcargs["theatre"]
    assert isinstance(theatre, Theatre)
    theatre.perform(script, size)
    return True


@pytest.fixture
def theatre(tmp_path: Path) -> Iterator[Theatre]:
    stage = Theatre(tmp_path)
    yield stage
    stage.close()
