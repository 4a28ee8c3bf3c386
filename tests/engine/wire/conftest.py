"""A server and an empty workspace for each test."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engine.wire.workplace import Workplace
from tests.protocol_server.server import ProtocolServer


@pytest.fixture
def place(request: pytest.FixtureRequest, server: ProtocolServer, tmp_path: Path) -> Workplace:
    """Over OpenAI's protocol, unless a test is marked with `BOTH_PROTOCOLS`."""
    source = getattr(request, "param", "openai")
    return Workplace(tmp_path / "workspace", server, source=source)
