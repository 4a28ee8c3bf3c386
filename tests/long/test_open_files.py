"""As many conversations at once as people ask for, where a shell allows few open files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engine.wire.test_open_files import small_limit
from tests.engine.wire.workplace import Workplace
from tests.protocol_server.server import ProtocolServer


@pytest.mark.timeout(600)
@pytest.mark.parametrize("source", ["openai", "anthropic"])
def test_300_conversations_at_once_end_well_with_256_open_files(
    tmp_path: Path, source: str
) -> None:
    with ProtocolServer() as server:
        place = Workplace(tmp_path / "workspace", server, source=source)
        small_limit(place, files=256, at_once=300)
