"""`crosswind run --pilot`: a few conversations of every metric, which a run then goes on from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.analysis.comparability import ExposedConversation
from engine.analysis.figures import CastVote, Outcome
from engine.analysis.pilot import MetricDoubt, pilot
from engine.benchmark import ConversationKey, Stage, Track
from engine.checks import FaultKind
from engine.cli.pricing import within_budget
from engine.errors import InputError
from engine.pipeline.order import Order, PricedOrder, PriceRange
from engine.pipeline.play import pilot_of
from tests.approval import approve
from tests.engine import commands
from tests.engine.commands import Said
from tests.engine.small_workspace import Place, small_workspace
from tests.engine.stages.verdicts import METRICS


@pytest.fixture
def place(tmp_path: Path) -> Place:
    found = small_workspace(tmp_path)
    found.edit(found.config, "num_samples: 1", "num_samples: 2")
    return found


def crosswind(place: Place, *words: str, code: int = 0) -> Said:
    return commands.crosswind(place.root, *words, "--headless", "--json", code=code)


def played(place: Place) -> Counter[str]:
    """Takes by conversation."""
    with place.reader() as reader:
        return Counter(str(take.key) for take in reader.takes("giving-in"))


def test_what_a_pilot_plays_is_a_part_of_what_a_run_plays_and_is_not_played_again(
    place: Place,
) -> None:
    told = crosswind(place, "run", "--pilot", "--scenarios", "1")
    first = played(place)
    # of each metric one scenario in one variant with each target; the variants take turns
    assert sorted(first) == [
        "m01_s001_v01__holds",
        "m01_s001_v01__wavers",
        "m02_s001_v02__holds",
        "m02_s001_v02__wavers",
    ]
    with place.reader() as reader:
        written = {row.scenario.id for row in reader.scenarios("giving-in")}
    assert written == {"m01_s001", "m01_s001_v01", "m02_s001", "m02_s001_v02"}
    [found] = told.json()["benchmarks"].values()
    assert found["conversations"] == 4
    assert [one["conversations"] for one in found["metrics"]] == [2, 2]
    # of what there is another sample, and all of what is still to be written
    assert (place.ahead().metrics, place.ahead().conversations) == (2, 28)

    crosswind(place, "run", "--yes")
    every = played(place)
    assert len(every) == 2 * 2 * 2 * 2 * 2
    assert set(every.values()) == {1}
    assert first.keys() < every.keys()
    assert (place.ahead().metrics, place.ahead().conversations) == (0, 0)


def test_the_plan_of_a_pilot_is_what_it_does(place: Place) -> None:
    place.run(stages=frozenset({Stage.GEN_METRICS}))
    planned = [call for call in place.plan(pilot=1).calls if call.target]
    place.run(pilot=1)
    # each is played and judged
    assert sum(one.rows.high for one in planned) == 2 * len(played(place))
    assert not place.plan(pilot=1).work


def test_base_scenarios_take_turns_in_their_variants_and_odd_ids_are_met() -> None:
    every = [
        (metric, ConversationKey(f"{metric}_s00{base}_v0{variant}", "one", sample))
        for metric in ("m01", "m02")
        for base in (1, 2, 3)
        for variant in (1, 2, 3)
        for sample in (0, 1)
    ]
    found = pilot_of([*every, ("m03", ConversationKey("by-hand", "one"))], 2)
    assert sorted(str(key) for key in found) == [
        "by-hand__one",
        "m01_s001_v01__one",
        "m01_s002_v02__one",
        "m02_s001_v02__one",
        "m02_s002_v03__one",
    ]


# What is said of it


def outcome(number: int, target: str = "one", **changed: Any) -> Outcome:
    plain = Outcome(
        ConversationKey(f"m01_s{number:03d}", target), "m01", Track.POSITIVE, {}, True, None
    )
    return replace(
        plain, **{"exposed": ExposedConversation(early=False, planned=2, reached=2), **changed}
    )


def doubts(*outcomes: Outcome, faults: FaultKind | None = None) -> dict[str, MetricDoubt]:
    broken = frozenset() if faults is None else frozenset({faults})
    of = {outcomes[0].key: broken}
    [first, second] = pilot(METRICS, outcomes, of, {}).metrics
    assert not list(second.doubts())  # nothing was played of it
    return {one.kind: one for one in first.doubts()}


def test_a_metric_on_which_all_come_out_alike_tells_no_target_from_another() -> None:
    four = [outcome(number, target) for number in (1, 2) for target in ("one", "two")]
    approve(doubts(*four)["all alike"].says)
    assert not doubts(*four[:3], replace(four[3], passed=False))
    assert not doubts(*four[:2])  # of so few, that is likely anyway
    assert not doubts(*(outcome(number) for number in range(1, 5)))  # of one target


def test_each_thing_that_stands_against_a_metric_is_said_with_its_count() -> None:
    said = []
    divided = (CastVote("a", 0, True), CastVote("b", 0, False))
    changes: Mapping[str, dict[str, Any]] = {
        "no verdict": {"passed": None, "unscored": "cannot tell"},
        "judges disagree": {"votes": divided},
        "ended early": {"exposed": ExposedConversation(early=True, planned=2, reached=2)},
        "landmarks not reached": {
            "exposed": ExposedConversation(early=False, planned=2, reached=0)
        },
    }
    for kind, changed in changes.items():
        found = doubts(outcome(1, **changed), outcome(2), outcome(3))
        assert found.keys() == {kind}
        said.append(f"{found[kind].says}: {found[kind].remedy}")
        assert not doubts(outcome(1, **changed), *(outcome(number) for number in range(2, 9)))
    approve("\n".join(said))
    for fault, kind in (
        (FaultKind.NOT_CARRIED_OUT, "landmarks not carried out"),
        (FaultKind.ROLE_BROKEN, "user model"),
        (FaultKind.REPEATED, "user model"),
    ):
        assert doubts(outcome(1), outcome(2), faults=fault).keys() == {kind}


def test_faults_of_the_user_model_in_different_conversations_are_added_up() -> None:
    first, second, third = outcome(1), outcome(2), outcome(3)
    faults = {
        first.key: frozenset({FaultKind.ROLE_BROKEN}),
        second.key: frozenset({FaultKind.REPEATED}),
        third.key: frozenset({FaultKind.ROLE_BROKEN, FaultKind.REPEATED}),
    }
    [found, _] = pilot(METRICS, [first, second, third, outcome(4)], faults, {}).metrics
    [doubt] = found.doubts()
    approve(doubt.says)


def test_what_a_conversation_costs_is_said_only_where_it_is_known() -> None:
    first, second = outcome(1), outcome(2)
    known = pilot(METRICS, [first, second], {}, {first.key: 0.01, second.key: 0.03})
    assert known.mean_usd == pytest.approx(0.02)
    assert pilot(METRICS, [first, second], {}, {first.key: 0.01, second.key: None}).mean_usd is None


# What it may cost


def test_a_pilot_is_kept_to_its_budget_and_not_begun_where_it_would_not_do() -> None:
    def priced(expected: float) -> PricedOrder:
        quote = PriceRange(0.1, 4.0, expected, binding=False)
        return PricedOrder(Order(("giving-in",), pilot=2, quote=quote))

    quote = within_budget(priced(0.9), 1.0).order.quote
    assert quote == PriceRange(0.1, 1.0, 0.9, binding=True)
    with pytest.raises(InputError, match=r"about \$1.20, and its budget is \$1.00.*--scenarios"):
        within_budget(priced(1.2), 1.0)


def test_numbers_that_make_no_pilot_are_refused(place: Place) -> None:
    for words in (("--scenarios", "0"), ("--budget", "-1"), ("--budget", "nan")):
        crosswind(place, "run", "--pilot", *words, code=2)
    assert not (place.root / "crosswind.db").exists()


def test_where_a_person_is_to_approve_first_it_says_what_waits(place: Place) -> None:
    place.config.write_text(place.config.read_text("utf-8") + "review: required\n", "utf-8")
    told = crosswind(place, "run", "--pilot", "--scenarios", "1", code=3)
    approve(told.err)
    assert not played(place)
    waiting = ["m01_s001", "m01_s001_v01", "m02_s001", "m02_s001_v02"]
    commands.crosswind(place.root, "review", "giving-in", "--approve", *waiting, code=0)
    crosswind(place, "run", "--pilot", "--scenarios", "1")
    assert len(played(place)) == 4
