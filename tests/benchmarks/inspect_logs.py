"""What it takes to import a log of Inspect: `python -m tests.benchmarks.inspect_logs [N]`.

The log has N samples (2,000 if nothing is said), each of ten turns and one score, with the events
that Inspect keeps of them, compressed as Inspect does it. A second log has eight dimensions a
sample, each of which is a conversation here. It fails where fewer samples come in, for each second
of CPU, than are stated: two processes share the work, so that by the clock more do.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from tests.engine.importing.building import CONFIG
from tests.engine.importing.inspect_building import archive, audit, header, message, sample

SAMPLES: Final = 2_000
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


def imported(folder: Path, name: str, samples: int, dimensions: int) -> tuple[float, float, int]:
    """Samples a second, those for each second of CPU, and the most memory in MB."""
    about = audit() if dimensions else header()
    log = archive(folder / f"{name}.eval", about, [_sample(n, dimensions) for n in range(samples)])
    root = folder / name
    root.mkdir()
    (root / "config.yaml").write_text(CONFIG, "utf-8")
    began = time.perf_counter()
    words = ["-m", "tui", "import", "--workspace", str(root), str(log)]
    process = subprocess.Popen([sys.executable, *words], stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"the import of {log.name} ended with {process.returncode}")
    cpu = used.ru_utime + used.ru_stime
    return samples / (time.perf_counter() - began), samples / cpu, _megabytes(used)


def _megabytes(used: resource.struct_rusage) -> int:
    return used.ru_maxrss // 1024 if sys.platform == "linux" else used.ru_maxrss >> 20


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("samples", nargs="?", type=int, default=SAMPLES)
    samples = parser.parse_args().samples
    print("| samples in a log of Inspect | a second | a second of CPU | most memory |")  # noqa: T201  (a script)
    print("| --- | --- | --- | --- |")  # noqa: T201
    too_few = False
    with TemporaryDirectory() as folder:
        for dimensions, name, least in (
            (8, "eight dimensions", EIGHT),
            (0, "one score", ONE_SCORE),
        ):
            wall, cpu, memory = imported(Path(folder), name, samples, dimensions)
            print(f"| {samples:,} of {name} | {wall:.0f} | {cpu:.0f} | {memory} MB |")  # noqa: T201
            too_few |= cpu < least
    return int(too_few)


if __name__ == "__main__":
    sys.exit(main())
