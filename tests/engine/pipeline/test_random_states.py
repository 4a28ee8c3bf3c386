"""In whatever state a workspace is: the price holds, a run ends, and all who tell of it agree."""

from __future__ import annotations

import itertools
from collections.abc import Collection
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from engine.benchmark import Stage
from engine.cli.session import describe_benchmarks
from engine.config.benchmark_file import load_definition
from engine.config.schema import load_config
from engine.config.workspace import Workspace
from engine.pipeline.counting import wanted_conversations
from engine.pipeline.models import open_offline
from engine.pipeline.order import Order
from engine.pipeline.plan import corrections, plan_run
from engine.pipeline.planner import Planner
from engine.providers.scripted.models import offline_model
from engine.watch import Watch
from tests.engine.commands import crosswind
from tests.engine.random_states import counting, random_state
from tests.engine.small_workspace import CONFIG, Place, small_workspace
from tests.models import Overheard
from tui.launch import failures


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(30))
def test_states_agree_and_are_what_a_run_does(seed: int, tmp_path: Path) -> None:
    hold(tmp_path, seed)


class _Judge(Overheard):
    label = "evaluator"


JUDGE = "{model: evaluator, source: openai, base_url: 'http://127.0.0.1:9/v1'}"


@pytest.mark.parametrize(
    ("odd", "before"),
    [
        (range(0, 16, 2), {*Stage} - {Stage.EVALUATE}),
        (range(999), {*Stage}),
    ],
)
def test_the_price_holds_what_judges_are_asked_again(
    tmp_path: Path, odd: Collection[int], before: Collection[Stage]
) -> None:
    """Of few verdicts, half may take a second call; what got no answer may get none again."""
    scripted = "{model: evaluator, source: offline, params: {pace: instant}}"
    place = small_workspace(tmp_path, CONFIG.replace(scripted, JUDGE))
    calls = itertools.count()
    judge = _Judge(
        offline_model("evaluator", pace="instant"),
        changed=lambda reply: replace(reply, text="?") if next(calls) in odd else reply,
    )
    heard = place.heard_by(lambda spec: judge if spec.model == "evaluator" else open_offline(spec))
    heard.run(stages=frozenset(before))
    while work := heard.plan().work:
        told = crosswind(place.root, "run", "--dry-run", "--json").json()["total"]
        asked = len(judge.asked)
        heard.run()
        made = len(judge.asked) - asked
        assert told["calls"]["low"] <= made <= told["calls"]["high"], (made, len(work))
    assert len(judge.asked) == min(16 + len(odd), 3 * 3 * 16)


def hold(root: Path, seed: int) -> None:
    """Fails with the acts that led there."""
    place, acts = random_state(root, seed)
    try:
        agree(place)
        plans_leave_out_what_is_settled(place)
        calls = crosswind(place.root, "run", "--dry-run", "--json").json()["total"]["calls"]
        heard, made = counting(place)
        assert heard.run().failed == 0
        assert calls["low"] <= made() <= calls["high"], calls
        agree(place, at_end=True)
        assert place.plan().work == []
        before = made()
        heard.run()
        assert made() == before
    except AssertionError as error:
        error.add_note(f"after {', '.join(acts)}")
        raise


def plans_leave_out_what_is_settled(place: Place) -> None:
    """A plan that does not look at what is played and judged is the plan that looks at all."""
    with place.reader() as reader:
        planner = Planner(Workspace(place.root), load_config(place.config), reader)
        order = Order(("giving-in",))
        [bench] = planner.contexts(order)
        brief, whole = (plan_run(bench, order, with_stale=stale) for stale in (False, True))
        assert (brief.work, brief.calls) == (whole.work, whole.calls)
        assert (brief.made, brief.wanted) == (whole.made, whole.wanted)
        assert corrections(bench, brief) == corrections(bench, whole)


def agree(place: Place, *, at_end: bool = False) -> None:
    """`status`, `--explain`, the app and `results` say the same numbers."""
    status = crosswind(place.root, "status", "--json").json()
    told = status["benchmarks"]["giving-in"]
    config = load_config(place.config)
    infos = describe_benchmarks(Workspace(place.root), config, ["giving-in"])
    with closing(Watch.open(place.store, infos)) as watch:
        ahead = place.ahead()
        watch.correct("giving-in", ahead.corrections, ahead.seq)
        assert sum(len(group.units) for group in failures(watch)) == status["failed"]
        tallies = {stage: watch.progress.stage_tally("giving-in", stage) for stage in Stage}
    for stage, tally in tallies.items():
        of_app = {state: getattr(tally, state) for state in told["stages"][stage]}
        assert of_app == told["stages"][stage], stage
    with place.reader() as reader:
        definition = load_definition(place.benchmark)
        asked = {one.key for one in wanted_conversations(definition, config, reader)}
        stored = [
            verdicts
            for take, verdicts in reader.counting_verdicts("giving-in")
            if take.key in asked
        ]
    judged = sum(map(bool, stored))
    if at_end:
        rows = crosswind(place.root, "results", "--json").json()["giving-in"]
        results = sum(row["n_total"] for row in rows)
        assert tallies[Stage.SIMULATE].done == tallies[Stage.SIMULATE].total == len(stored)
        assert tallies[Stage.EVALUATE].done == judged == results == len(asked)
    else:
        assert tallies[Stage.SIMULATE].done <= len(stored)
        assert tallies[Stage.EVALUATE].done <= judged
    if at_end:
        return
    explained = crosswind(place.root, "run", "--explain").out
    assert explained.count("rows failed: ") + explained.count("row failed: ") == len(
        status["failures"]
    )
