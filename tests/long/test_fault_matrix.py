"""Every fault at each moment of each kind of call over both protocols: the tests for every day take
a twelfth of it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.engine.wire.cases import Kind, Moment
from tests.engine.wire.test_fault_matrix import (
    AMONG,
    Group,
    carry_out,
    check_fault,
    check_run,
)

GROUPS: Final = [
    Group(kind, source, among, shift)
    for source in ("openai", "anthropic")
    for kind in Kind
    for among in AMONG
    for shift in range(len(Moment))
]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("matrix")


@pytest.mark.parametrize("group", GROUPS, ids=str)
def test_a_fault_costs_at_most_its_own_row_whenever_it_strikes(group: Group, root: Path) -> None:
    outcome = carry_out(group, root)
    check_run(outcome)
    for fault in group.faults:
        check_fault(outcome, fault)
