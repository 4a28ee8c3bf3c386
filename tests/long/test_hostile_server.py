"""Each thing that a server can do at its worst, by itself and all together, beside a sound one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from tests.engine.wire.hostile import answering, failing
from tests.engine.wire.test_hostile_server import check_commands, side_by_side
from tests.engine.wire.workplace import Workplace
from tests.protocol_server.server import ProtocolServer

MOST: Final = 3.0
"""So many times as long as by itself a sound provider's row may take, as both share a machine."""
TRIES: Final = 3


def check_unharmed(
    root: Path,
    server: ProtocolServer,
    said: Mapping[str, Mapping[str, bytes]],
    source: str = "openai",
) -> None:
    """What a busy machine does to one of the two, it does not do three times."""
    took = list[float]()
    while not took or min(took) > MOST:
        assert len(took) < TRIES, f"so many times as long as by itself: {took}"
        places = (
            Workplace(root / f"{name}-{len(took)}", server, source=source)
            for name in ("alone", "beside")
        )
        alone = side_by_side(next(places), {source: {} for source in said})
        beside = next(places)
        took.append(side_by_side(beside, said) / alone)
        check_commands(beside.root)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("source", ["openai", "anthropic"])
def test_no_single_misdeed_and_not_all_of_them_harm_a_sound_provider(
    tmp_path: Path, source: str
) -> None:
    said = {**failing(source), **answering(source)}
    with ProtocolServer() as server:
        for name, each in [*((name, {name: one}) for name, one in said.items()), ("all", said)]:
            check_unharmed(tmp_path / name, server, {source: each}, source)
