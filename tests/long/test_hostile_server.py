"""Each thing that a server can do at its worst, by itself and all together, beside a sound one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engine.wire.hostile import answering, failing
from tests.engine.wire.test_hostile_server import check_unharmed
from tests.protocol_server.server import ProtocolServer


@pytest.mark.timeout(900)
@pytest.mark.parametrize("source", ["openai", "anthropic"])
def test_no_single_misdeed_and_not_all_of_them_harm_a_sound_provider(
    tmp_path: Path, source: str
) -> None:
    said = {**failing(source), **answering(source)}
    with ProtocolServer() as server:
        for name, each in [*((name, {name: one}) for name, one in said.items()), ("all", said)]:
            check_unharmed(tmp_path / name, server, {source: each}, source)
