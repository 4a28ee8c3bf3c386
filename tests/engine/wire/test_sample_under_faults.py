"""A sample benchmark over the wire: faults that pass leave no trace in its scores."""

from __future__ import annotations

import shutil
from itertools import cycle
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

import sample_benchmarks
from engine.providers.retry import RetryPolicy
from tests.engine.wire import audit
from tests.engine.wire.workplace import Workplace
from tests.protocol_server.faults import Detail, Fault, When

PASSING: Final = (
    Fault.REQUEST_TIMEOUT,
    Fault.CONFLICT,
    Fault.SERVER_ERROR,
    Fault.UNAVAILABLE,
    Fault.OVERLOADED,
    Fault.RATE_LIMITED,
    Fault.RATE_LIMITED_SECONDS,
    Fault.RATE_LIMITED_DATE,
    Fault.RATE_LIMITED_LONG,
    Fault.ERROR_EVENT,
    Fault.RESET,
    Fault.RESET_MIDWAY,
    Fault.CUT_MIDWAY,
    Fault.NO_FINISH,
    Fault.HALF_EVENT,
    Fault.BAD_JSON,
    Fault.BAD_UTF8,
    Fault.HTML,
    Fault.EMPTY_BODY,
    Fault.JSON_BODY,
    Fault.EMPTY_TEXT,
    Fault.STALL,
    Fault.STALL_MIDWAY,
    Fault.STALL_WITH_PINGS,
)
NAME: Final = "sycophancy"
# silence is watched for in real time, and a busy machine, on which any answer may seem to be one,
# is not to be taken for a silent model
WATCHFUL: Final = RetryPolicy(first_token_s=1.5, between_s=1.5, stalls=100, trying_s=1e9)


def sample(root: Path, like: Workplace) -> Workplace:
    """The samples with every model behind the server, over one protocol and the other in turn."""
    place = Workplace(root, like.server, retry_policy=WATCHFUL)
    sources = cycle(("openai", "anthropic"))
    shutil.copytree(Path(sample_benchmarks.__path__[0]), root)
    config: dict[str, Any] = yaml.safe_load((root / "config.yaml").read_text("utf-8"))
    for spec in (
        *(config[f"{role}_model"] for role in ("user", "evaluator", "generator")),
        *config["targets"],
        *config["models"].values(),
    ):
        spec.update(place.model(spec["model"], next(sources)))
        del spec["params"]
    config["generation"] = {"scenarios_per_metric": 1, "turns": 3, "num_samples": 1}
    (root / "config.yaml").write_text(yaml.safe_dump(config), "utf-8")
    return place


def scores(place: Workplace) -> dict[str, bytes]:
    found = sorted(place.root.glob("benchmarks/*/runs/*/scores.json"))
    return {str(path.relative_to(place.root)): path.read_bytes() for path in found}


def each(number: int) -> When:
    """This fault's part of one call in ten."""
    whole = 10 * len(PASSING)
    return When(lambda count: count % whole == 10 * number + 1)


@pytest.mark.exhaustive
def test_faults_that_pass_change_no_byte_of_the_scores(place: Workplace, tmp_path: Path) -> None:
    calm = sample(tmp_path / "calm", place)
    assert calm.run(NAME).failed == 0
    undisturbed = place.server.counters.requests
    place.server.reset()
    rough = sample(tmp_path / "rough", place)
    for number, fault in enumerate(PASSING):
        place.server.plan(fault, None, each(number), Detail(every_ms=50))
    assert rough.run(NAME).failed == 0
    seen = place.server.counters.by_outcome
    assert all(seen[fault.value] >= 1 for fault in PASSING), seen
    struck = sum(seen[fault.value] for fault in PASSING)
    assert struck >= 0.09 * undisturbed
    assert len(scores(rough)) == 3
    assert scores(rough) == scores(calm)
    with rough.reader() as reader:
        audit.check_store(reader, NAME)
