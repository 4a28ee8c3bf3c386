"""Marks what tests start where those are left out that start much, and holds the others to it; and
keeps the garbage collector from what stays."""

from __future__ import annotations

import gc
from functools import cache

import pytest

from tests.processes import Watch, marks

LEFT_OUT = "not process"

gc.disable()  # half of the time that it takes to find the tests would go into walking through them


@cache
def watch() -> Watch:
    return Watch()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if LEFT_OUT not in config.option.markexpr:
        return
    for item in items:
        if isinstance(item, pytest.Function):
            for mark in marks(item.path, item.originalname):
                item.add_marker(mark)
    watch()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    if LEFT_OUT in item.config.option.markexpr and watch().started:
        told, watch().started = watch().started, []
        pytest.fail(f"it starts a process, and its source does not say so: {', '.join(told)}")
