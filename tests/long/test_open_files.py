"""As many conversations at once as people ask for, where a shell allows few open files."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.benchmark import Stage
from tests.engine.wire.processes import crosswind
from tests.engine.wire.workplace import Workplace, metric, scenario
from tests.protocol_server.server import ProtocolServer
from tests.protocol_server.settings import Settings

SLOW = Settings(latency_ms=100)


def small_limit(place: Workplace, *, files: int, at_once: int) -> None:
    """Every conversation comes to its verdict, and no attempt failed for want of files."""
    place.server.settings = SLOW
    place.configure(
        [{"id": "only", **place.model("words-5")}], turns=1, simulate=at_once, evaluate=at_once
    )
    rows = range(1, at_once + 1)
    place.define("many", "Whether many can speak.", [metric(row, "It holds.") for row in rows])
    place.stage("many", [scenario(row, turns=1) for row in rows])
    ended = crosswind(place.root, "run", "many", "--headless", files=files)
    assert ended.returncode == 0, ended.stderr
    assert "Traceback" not in ended.stderr
    with place.reader() as reader:
        units = reader.units("many", Stage.EVALUATE)
        assert len(units) == at_once
        assert {unit.state for unit in units.values()} == {"done"}
    assert place.server.counters.concurrent_max < files
    # a protocol without bounds in schemas refuses them once
    assert set(place.server.counters.by_outcome) - {"400"} == {"answered"}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("source", ["openai", "anthropic"])
def test_300_conversations_at_once_end_well_with_256_open_files(
    tmp_path: Path, source: str
) -> None:
    with ProtocolServer() as server:
        place = Workplace(tmp_path / "workspace", server, source=source)
        small_limit(place, files=256, at_once=300)
