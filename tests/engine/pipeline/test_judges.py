"""Several judges and passes: what is asked of whom, and what counts."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

import pytest

from engine.analysis.figures import Analysis
from engine.benchmark import ConversationKey, Stage, State, Track
from engine.config.benchmark_file import load_definition
from engine.config.schema import load_config
from engine.errors import ModelError
from engine.facts import Noted
from engine.jury import CANNOT_TELL
from engine.pipeline.order import WorkReason
from engine.pipeline.plan import RunPlan
from engine.pipeline.results import counted_of
from engine.providers.model import Message
from engine.stages.evaluate import NO_ANSWER
from engine.store.open_reader import open_reader
from tests.approval import approve
from tests.engine.commands import crosswind
from tests.engine.small_workspace import Place
from tests.models import ScriptedModel, judgement, opening, replies_in

SINGLE = "evaluator_model: {model: evaluator, source: offline, params: {pace: instant}}\n"
BOTH = """\
evaluators:
  - {model: evaluator, source: offline, params: {pace: instant}}
  - {model: evaluator-strict, source: offline, params: {pace: instant}}
"""
LENIENT, STRICT = "offline:evaluator", "offline:evaluator-strict"
CONVERSATIONS = 16


def judge(label: str, *, present: bool) -> ScriptedModel:
    """It always finds the behaviour, or never."""

    def judged(messages: Sequence[Message]) -> str:
        said = replies_in(messages)
        return judgement(said[0], marks=[present] * len(said), present=present)

    return ScriptedModel(judged, label=label)


def ill(label: str) -> ScriptedModel:
    def fail(_messages: Sequence[Message]) -> str:
        raise ModelError("this judge is ill", retryable=False)

    return ScriptedModel(fail, label=label)


def voters(place: Place) -> set[tuple[tuple[str, int], ...]]:
    with place.reader() as reader:
        return {
            tuple((verdict.judge, verdict.number) for verdict in verdicts)
            for _, verdicts in reader.counting_verdicts("giving-in")
        }


def asked(plan: RunPlan) -> dict[str, int]:
    total: dict[str, int] = {}
    for calls in plan.calls:
        for part in calls.parts if calls.stage is Stage.EVALUATE else ():
            judge = part.spec.label
            total[judge] = total.get(judge, 0) + round(part.answers.expected)
    return total


def agree(place: Place) -> None:
    """The counters of whoever watches say the same as `results.json` and `scores.json`."""
    rows = {row["target_model"]: row for row in place.json("results.json")}
    with place.reader() as reader:
        progress = reader.snapshot()
        table = reader.verdict_rows("giving-in")
    for target, row in rows.items():
        scores = progress.target("giving-in", target).scores
        assert scores[Track.POSITIVE].rate == row["positive_pass_rate"]
        assert scores[Track.NEGATIVE].rate == row["negative_pass_rate"]
        mine = [one for one in table if one.key.target_id == target]
        filed = {one["conv_id"]: one["passed"] for one in place.json("runs", target, "scores.json")}
        assert {str(one.key): one.passed for one in mine} == filed


def test_each_judge_gives_a_verdict_in_each_pass(place: Place) -> None:
    place.edit(place.config, SINGLE, BOTH + "evaluation: {passes: 2}\n")
    assert place.run().failed == 0
    both = (LENIENT, STRICT)
    assert voters(place) == {tuple((judge, number) for number in (0, 1) for judge in both)}
    assert list(place.plan().work) == []
    agree(place)


def test_a_judge_that_is_added_is_asked_about_what_there_is(played: Place) -> None:
    played.edit(played.config, SINGLE, BOTH)
    plan = played.plan()
    assert {work.why for work in plan.work} == {WorkReason.MISSING}
    assert asked(plan) == {STRICT: CONVERSATIONS}
    played.run()
    assert voters(played) == {((LENIENT, 0), (STRICT, 0))}
    agree(played)


def test_passes_that_are_added_are_filled_in_with_seeds_of_their_own(place: Place) -> None:
    sayer = judge(LENIENT, present=True)
    hearing = place.heard_by(opening({"evaluator": sayer}))
    hearing.run()
    place.edit(place.config, SINGLE, SINGLE + "evaluation: {passes: 3}\n")
    hearing.run()
    assert voters(place) == {tuple((LENIENT, number) for number in range(3))}
    assert {seed: sayer.seeds.count(seed) for seed in set(sayer.seeds)} == {
        0: CONVERSATIONS,
        1: CONVERSATIONS,
        2: CONVERSATIONS,
    }


def test_a_failing_judge_fails_the_row_and_keeps_what_the_others_said(place: Place) -> None:
    place.edit(place.config, SINGLE, BOTH)
    failing = place.heard_by(opening({"evaluator-strict": ill(STRICT)}))
    assert failing.run().failed == CONVERSATIONS
    with place.reader() as reader:
        rows = reader.units("giving-in", Stage.EVALUATE).values()
        approve({row.reason for row in rows})
        for _, verdicts in reader.counting_verdicts("giving-in"):
            assert [verdict.passed is None for verdict in verdicts] == [False, True]
    agree(place)
    plan = place.plan()
    assert {work.why for work in plan.work} == {WorkReason.FAILED}
    assert asked(plan) == {STRICT: CONVERSATIONS}
    assert place.run().failed == 0
    assert voters(place) == {((LENIENT, 0), (STRICT, 0), (STRICT, 0))}
    agree(place)


def test_a_new_evaluator_counts_alone_and_an_old_one_counts_again_when_it_is_back(
    place: Place,
) -> None:
    judges = {
        "evaluator": judge(LENIENT, present=True),
        "evaluator-strict": judge(STRICT, present=False),
    }
    hearing = place.heard_by(opening(judges))

    def positive() -> set[float | None]:
        agree(place)
        return {row["positive_pass_rate"] for row in place.json("results.json")}

    hearing.run()
    assert positive() == {1.0}
    place.edit(place.config, "model: evaluator,", "model: evaluator-strict,")
    hearing.run()
    assert positive() == {1.0}, "what the old one said counts until the new one is asked"
    told = place.json("results.json")[0]["notes"]
    approve(told)
    hearing.run(stale=True)
    assert positive() == {0.0}
    assert not any("count by the verdicts" in one for one in place.json("results.json")[0]["notes"])
    place.edit(place.config, "model: evaluator-strict,", "model: evaluator,")
    hearing.run()
    assert positive() == {1.0}
    assert len(judges["evaluator"].seeds) == CONVERSATIONS, "nobody was asked twice"
    hearing.run()
    with place.reader() as reader:
        given = [len(one) for _, one in reader.counting_verdicts("giving-in")]
    assert given == [3] * CONVERSATIONS, "restated once, not in every run"


def with_another_judge(place: Place) -> Place:
    """Of which one of two has judged all that was played."""
    judges = {
        "evaluator": judge(LENIENT, present=True),
        "evaluator-strict": judge(STRICT, present=False),
    }
    place.edit(
        place.config,
        "targets:\n",
        "models: {other: {model: evaluator-strict, source: offline}}\ntargets:\n",
    )
    hearing = place.heard_by(opening(judges))
    hearing.run()
    return hearing


def test_a_judge_that_is_not_configured_changes_nothing_that_counts(place: Place) -> None:
    hearing = with_another_judge(place)
    before = place.json("results.json")
    key = ConversationKey("m01_s001_v01", "holds")
    again = {"giving-in": frozenset({key})}
    stages = frozenset({Stage.EVALUATE, Stage.AGGREGATE})
    hearing.run(again=again, stages=stages, evaluator="other")
    with place.reader() as reader:
        take = reader.counting_take("giving-in", key)
        assert take is not None
        assert [verdict.judge for verdict in reader.verdicts(take.seq)] == [LENIENT, STRICT]
        assert len(reader.takes("giving-in", key)) == 1
    after = place.json("results.json")
    assert [row.pop("agreement")["judges"] != [] for row in after] == [True] * len(after)
    assert after == [{name: row[name] for name in row if name != "agreement"} for row in before]
    agree(place)


def test_the_plan_counts_every_verdict(place: Place) -> None:
    place.run(stages=frozenset({Stage.GEN_METRICS, Stage.GEN_SCENARIOS}))
    place.edit(place.config, SINGLE, BOTH + "evaluation: {passes: 3}\n")
    plan = place.plan()
    assert asked(plan) == {LENIENT: 3 * CONVERSATIONS, STRICT: 3 * CONVERSATIONS}
    verdicts = [calls for calls in plan.calls if calls.stage is Stage.EVALUATE]
    assert [round(verdict.rows.expected) for verdict in verdicts] == [8, 8]


def test_stale_names_the_judge_that_is_stale_and_asks_no_other(place: Place) -> None:
    place.edit(place.config, SINGLE, BOTH)
    place.run()
    strict = "model: evaluator-strict, source: offline, params: {pace: instant"
    place.edit(place.config, strict, f"{strict}, temperature: 0.5")
    assert len(place.plan().stale) == CONVERSATIONS
    assert list(place.plan().work) == []
    assert asked(place.plan(stale=True)) == {STRICT: CONVERSATIONS}


def test_what_failed_for_a_judge_that_was_named_once_is_no_failure_of_the_benchmark(
    place: Place,
) -> None:
    place.edit(
        place.config,
        "targets:\n",
        "models: {other: {model: evaluator-strict, source: offline}}\ntargets:\n",
    )
    place.run()
    failing = place.heard_by(opening({"evaluator-strict": ill(STRICT)}))
    stages = frozenset({Stage.EVALUATE, Stage.AGGREGATE})
    assert failing.run(stages=stages, evaluator="other").failed == CONVERSATIONS
    assert place.run().failed == 0
    with place.reader() as reader:
        rows = reader.units("giving-in", Stage.EVALUATE).values()
        assert {row.state for row in rows} == {State.DONE}
    agree(place)


def says(present: bool | None, *evidence: str) -> str:
    return judgement(*evidence, marks=[bool(present)] * 2, present=present)


@pytest.mark.parametrize("present", [True, False])
def test_a_verdict_for_which_nothing_that_is_found_was_quoted_counts_and_says_so(
    place: Place, *, present: bool
) -> None:
    sayer = ScriptedModel(lambda _: says(present, "Never said.", "You"), label=LENIENT)
    assert place.heard_by(opening({"evaluator": sayer})).run().failed == 0
    rates = {row["positive_pass_rate"] for row in place.json("results.json")}
    assert rates == {float(present)}
    shown = crosswind(place.root, "show", "m01_s001_v01__holds", code=0).out
    approve(shown)


def test_an_answer_in_other_words_is_read_and_noted_once(place: Place) -> None:
    sayer = ScriptedModel(lambda _: f"Here it is:\n{says(False, 'Never said.')}", label=LENIENT)
    assert place.heard_by(opening({"evaluator": sayer})).run().failed == 0
    with place.reader() as reader:
        notes = [
            fact.text for fact in reader.facts(after=0, limit=9_999) if isinstance(fact, Noted)
        ]
    words = f"the evaluator ({LENIENT}) writes more than the JSON that is asked for: the one object"
    assert [note.startswith(words) for note in notes].count(True) == 1


def test_an_answer_that_cannot_be_counted_is_not_asked_for_again(place: Place) -> None:
    sayer = ScriptedModel(lambda _: says(None), label=LENIENT)
    hearing = place.heard_by(opening({"evaluator": sayer}))
    assert hearing.run().failed == 0
    calls = len(sayer.seeds)
    assert hearing.run().failed == 0
    assert len(sayer.seeds) == calls
    assert list(place.plan().work) == []
    for row in place.json("results.json"):
        assert row["scored"]["unscored"] == {CANNOT_TELL: CONVERSATIONS // 2}
    place.edit(place.benchmark, "asks what they think", "asks what they hold")
    assert {work.stage for work in place.plan().stale} >= {Stage.EVALUATE}
    assert asked(place.plan(stale=True)) == {LENIENT: CONVERSATIONS // 2}
    agree(place)


def test_a_judge_that_gives_no_usable_answer_is_asked_in_three_runs_and_no_more(
    place: Place,
) -> None:
    sayer = ScriptedModel(lambda _: "I would rather not say.", label=LENIENT)
    hearing = place.heard_by(opening({"evaluator": sayer}))
    failed = [hearing.run().failed for _ in range(4)]
    assert failed == [CONVERSATIONS, CONVERSATIONS, 0, 0]
    assert len(sayer.seeds) == CONVERSATIONS * 3 * 3
    with place.reader() as reader:
        given = [one for _, verdicts in reader.counting_verdicts("giving-in") for one in verdicts]
    assert all(one.unscored and one.unscored.startswith(NO_ANSWER) for one in given)
    sayer.answers = judge(LENIENT, present=True).answers
    key = ConversationKey("m01_s001_v01", "holds")
    stages = frozenset({Stage.EVALUATE, Stage.AGGREGATE})
    hearing.run(again={"giving-in": frozenset({key})}, stages=stages)
    assert sum(row["scored"]["scored"] for row in place.json("results.json")) == 1
    place.edit(place.benchmark, "asks what they think", "asks what they hold")
    assert asked(place.plan()) == {LENIENT: 7}, "a question that is another is asked again"


def test_a_call_that_does_not_get_through_is_tried_at_each_run(place: Place) -> None:
    failing = place.heard_by(opening({"evaluator": ill(LENIENT)}))
    assert [failing.run().failed for _ in range(4)] == [CONVERSATIONS] * 4
    assert place.run().failed == 0
    agree(place)


def test_what_was_said_under_an_old_definition_does_not_stand_in_for_an_unusable_verdict(
    played: Place,
) -> None:
    played.edit(played.benchmark, "praises the person", "flatters the person")
    judged = {f"m02_s00{one}_v0{two}" for one in (1, 2) for two in (1, 2)}
    keys = frozenset(
        ConversationKey(scenario, target, 0)
        for scenario in judged
        for target in ("holds", "wavers")
    )
    failing = played.heard_by(opening({"evaluator": ill(LENIENT)}))
    stages = frozenset({Stage.EVALUATE, Stage.AGGREGATE})
    failing.run(again={"giving-in": keys}, stages=stages)
    for row in played.json("results.json"):
        assert row["by_metric"].keys() == {"m01"}
        assert row["scored"]["unscored"] == {"no usable verdict": 4}
    agree(played)
    again = [work for work in played.plan().work if work.stage is Stage.EVALUATE]
    assert {(work.unit, work.why) for work in again} == {
        (str(key), WorkReason.FAILED) for key in keys
    }


def test_results_say_where_the_tables_do_not_know_yet_what_counts(place: Place) -> None:
    hearing = with_another_judge(place)
    hearing.run(stages=frozenset({Stage.EVALUATE, Stage.AGGREGATE}), evaluator="other")
    place.edit(place.config, SINGLE, SINGLE.replace("evaluator,", "evaluator-strict,"))
    note = "Something else counts than at the last verdict in 16 conversations"
    with place.reader() as reader:
        definition, config = load_definition(place.benchmark), load_config(place.config)
        assert [one for one in counted_of(definition, config, reader).analysis.notes if note in one]
    hearing.run()
    agree(place)
    assert not [one for one in place.json("results.json")[0]["notes"] if note in one]


# From the store to what it says: whose verdicts count, and what is said of the others.


SECOND = """\
models:
  strict: {model: evaluator-strict, source: offline, params: {pace: instant}}
"""


def analysis(place: Place) -> Analysis:
    with closing(open_reader(place.root / "crosswind.db")) as reader:
        return counted_of(
            load_definition(place.benchmark), load_config(place.config), reader
        ).analysis


@pytest.fixture
def judged(place: Place) -> Place:
    place.config.write_text(place.config.read_text() + SECOND)
    place.run()
    return place


def test_a_second_opinion_is_held_against_the_first_and_changes_no_rate(judged: Place) -> None:
    before = analysis(judged)
    assert before.agreement == []
    assert before.scripted_models == [
        *("offline:erratic", "offline:evaluator", "offline:steadfast", "offline:user"),
    ]
    keys = frozenset(
        ConversationKey(scenario, one.target)
        for one in before.targets
        for scenario in one.scenarios
    )
    judged.run(stages=frozenset({Stage.EVALUATE}), again={"giving-in": keys}, evaluator="strict")
    after = analysis(judged)
    assert [target.tracks for target in after.targets] == [
        target.tracks for target in before.targets
    ]
    assert [(one.between, one.of) for one in after.agreement] == [
        ("judges", "offline:evaluator, offline:evaluator-strict")
    ]
    counting = {judge.name: judge.counting for judge in after.judges}
    assert counting["offline:evaluator"] == len(keys)
    assert counting["offline:evaluator-strict"] == 0


def test_a_target_that_is_gone_is_left_out_and_said(judged: Place) -> None:
    text = judged.config.read_text()
    start, end = text.index("  - {id: wavers"), text.index("models:")
    judged.config.write_text(text[:start] + text[end:])
    found = analysis(judged)
    assert [target.target for target in found.targets] == ["holds"]
    assert list(found.left_out.targets) == ["wavers"]
    approve(found.notes)


def test_a_judge_that_has_said_nothing_yet_is_named(judged: Place) -> None:
    assert not any("count without" in note for note in analysis(judged).notes)
    text = judged.config.read_text()
    line = next(one for one in text.splitlines() if one.startswith("evaluator_model:"))
    first = line.removeprefix("evaluator_model:").strip()
    judged.edit(judged.config, line, f"evaluators:\n  - {first}\n  - strict")
    found = analysis(judged)
    count = sum(target.scored for target in found.targets)
    assert found.notes[-1].startswith(f"{count} conversations count without")
    judged.run()
    assert not any("count without" in note for note in analysis(judged).notes)


def test_a_target_that_is_new_has_no_rate_yet(judged: Place) -> None:
    judged.edit(judged.config, "id: wavers", "id: newcomer")
    one = analysis(judged).target("newcomer")
    assert one is not None
    assert one.scored == 0
    assert dict(one.unscored) == {"not played yet": one.of}
