"""What it takes to import a log of Inspect."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from tests.benchmarks.frame import Row
from tests.benchmarks.measuring import peak_mb
from tests.engine.importing.building import CONFIG
from tests.engine.importing.inspect_building import archive, audit, header, message, sample

ONE_SCORE: Final = 600
EIGHT: Final = 220
"""Samples for each second of CPU."""
_TURNS: Final = 10
_WORDS: Final = "what somebody says in a conversation that goes on for a while and "


def _sample(number: int, dimensions: int) -> dict[str, Any]:
    messages = [
        message(role, f"{number}.{turn} {_WORDS * 12}")
        for turn in range(_TURNS)
        for role in ("user", "assistant")
    ]
    call = {"event": "model", "role": "target", "model": "m", "tools": [], "config": {}}
    output = {"model": "m", "choices": [{"message": messages[-1]}]}
    events = [
        {**call, "input": [], "input_refs": [[0, 2 * turn + 1]], "output": output}
        for turn in range(_TURNS)
    ]
    kept = {"messages": messages, "calls": messages}
    scores = {f"d{one}": number % 10 + 1 for one in range(dimensions)}
    given: dict[str, object] = {"audit_judge": scores} if dimensions else {"includes": "C"}
    return sample(number, given, messages, events=events, events_data=kept)


def inspect(samples: int = 2_000) -> Iterator[Row]:
    """What it takes to import a log of Inspect.

    The log has so many samples, each of ten turns and one score, with the events that Inspect keeps
    of them, compressed as Inspect does it. A second log has eight dimensions a sample, each of
    which is a conversation here. It fails where
    fewer samples come in, for each second of CPU, than are stated: two processes share the work, so
    that by the clock more do.
    """
    with TemporaryDirectory() as folder:
        yield from _imported(Path(folder), "eight dimensions", samples, 8, EIGHT)
        yield from _imported(Path(folder), "one score", samples, 0, ONE_SCORE)


def _imported(folder: Path, name: str, samples: int, dimensions: int, least: int) -> Iterator[Row]:
    about = audit() if dimensions else header()
    log = archive(folder / f"{name}.eval", about, [_sample(n, dimensions) for n in range(samples)])
    root = folder / name
    root.mkdir()
    (root / "config.yaml").write_text(CONFIG, "utf-8")
    words = ["-m", "tui", "import", "--workspace", str(root), str(log)]
    began = time.perf_counter()
    process = subprocess.Popen([sys.executable, *words], stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"the import of {log.name} ended with {process.returncode}")
    wall, cpu = time.perf_counter() - began, used.ru_utime + used.ru_stime
    what = f"{samples:,} samples of {name}"
    yield Row(
        f"import of {what}",
        f"{samples / cpu:.0f} a second of CPU, {samples / wall:.0f} by the clock",
        f"{least} a second of CPU",
        missed=samples / cpu < least,
    )
    yield Row(f"peak memory with {what}", f"{peak_mb(used):.0f} MB")
