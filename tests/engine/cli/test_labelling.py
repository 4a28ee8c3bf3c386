"""People label blind, decide where they disagree, and a judge is held against them."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import re
import shutil
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from markupsafe import escape

from engine.analysis.calibration import Split
from engine.cli.person_labels import PersonSample
from engine.cli.session import open_session
from engine.config.benchmark_file import load_definition
from engine.config.schema import load_config
from engine.host import EngineThread
from engine.jury import People
from engine.link import Command, EngineState, Request
from engine.people import (
    GivenLabel,
    LabelAnswer,
    LabelRequest,
    NumberedLabel,
)
from engine.pipeline.labelling.labels import (
    adjudication,
    judged_conversations,
    labels_of,
    withdrawal_of,
)
from engine.pipeline.order import Order
from engine.service.hosting import hosted_engine, serve
from engine.service.spawning import EngineSettings
from engine.store.database import open_store
from engine.store.tables import Verdict
from tests.approval import approve, lines_with
from tests.engine import commands
from tests.engine.commands import Crosswind, printed_data
from tests.engine.small_workspace import Place
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.run

Cells = Mapping[str, str]


@pytest.fixture
def place(played: Place) -> Place:
    return played


@pytest.fixture
def crosswind(place: Place) -> Crosswind:
    return partial(commands.crosswind, place.root)


@pytest.fixture
def sheet(crosswind: Crosswind, tmp_path: Path) -> Path:
    path = tmp_path / "ann.csv"
    words = ("--by", "Ann", "--sample", "12", "--export", str(path))
    code, out, err = crosswind("label", "giving-in", *words)
    assert (code, err) == (0, "")
    assert "Ann has labelled 0 of 12 conversations of giving-in (seed 7)" in out
    return path


def cells_of(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(path.read_text("utf-8-sig"), newline="")))


def fill(path: Path, answer: Callable[[int, Cells], Mapping[str, str]]) -> Path:
    """Each line with what a person says of its number; in place."""
    rows = cells_of(path)
    for row in rows:
        row |= answer(int(row["number"]), row)
    out = io.StringIO()
    table = csv.DictWriter(out, list(rows[0]))
    table.writeheader()
    table.writerows(rows)
    path.write_text(out.getvalue(), "utf-8")
    return path


def by_number(number: int, _row: Cells) -> Mapping[str, str]:
    present = {"answer": "present", "replies": "1 2", "confidence": "3", "note": "I read it."}
    return present if number % 3 else {"answer": "absent"}


def of_number(one: int, cells: Cells, others: Cells, number: int, _row: Cells) -> Cells:
    return cells if number == one else others


def take_in(crosswind: Crosswind, path: Path, by: str = "Ann") -> tuple[int, str, str]:
    return crosswind("label", "giving-in", "--by", by, "--import", str(path))


def test_a_person_sees_what_the_evaluator_sees_and_no_more(sheet: Path, place: Place) -> None:
    rows = cells_of(sheet)
    assert [int(row["number"]) for row in rows] == list(range(1, 13))
    text = sheet.read_text("utf-8-sig")
    secret = json.dumps(place.json("scenarios.json"))
    for word in ("m01", "m02", "Leaves the decision", "Avoid flattery", "holds", "wavers", "v01"):
        assert word not in text
    assert "positive" not in text
    assert "negative" not in text
    assert all(mark["instruction"] not in text for mark in _landmarks(json.loads(secret)))
    definitions = Counter(row["definition"] for row in rows)
    assert len(definitions) == 2
    assert all(row["transcript"].startswith("[1] USER: ") for row in rows)


def test_a_key_that_a_server_repeats_is_in_no_sheet(
    sheet: Path, place: Place, crosswind: Crosswind, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = cells_of(sheet)[0]["transcript"].split("[2] ")[1].split("\n")[0]
    key = said[8:24]
    monkeypatch.setenv("MY_KEY", key)
    path = place.root / "config.yaml"
    model = "{model: m, source: ollama, extra_headers: {X-A: '${MY_KEY}'}}"
    config = path.read_text("utf-8")
    assert "\nmodels:" not in config
    path.write_text(f"{config}\nmodels: {{other: {model}}}\n", "utf-8")
    sheet.unlink()
    crosswind("label", "giving-in", "--by", "Ann", "--export", str(sheet))
    text = sheet.read_text("utf-8-sig")
    assert "[hidden]" in text
    assert key not in text


def _landmarks(scenarios: list[dict[str, Any]]) -> list[dict[str, str]]:
    return [mark for scenario in scenarios for mark in scenario["landmarks"]]


def test_labels_are_taken_in_once_and_go_on_where_they_stopped(
    crosswind: Crosswind, sheet: Path, place: Place
) -> None:
    half = fill(sheet, lambda number, row: by_number(number, row) if number <= 5 else {})
    code, out, _ = take_in(crosswind, half)
    assert code == 0
    approve(out)
    with place.reader() as reader:
        before = len(reader.peoples_verdicts("giving-in"))
    assert take_in(crosswind, half)[0] == 0
    with place.reader() as reader:
        given = reader.peoples_verdicts("giving-in")
    assert len(given) == before == 5
    assert {one.judge for one in given} == {"Ann"}
    assert all(one.inclusion is not None and one.inclusion <= 1 for one in given)
    assert {one.confidence for one in given if one.present} == {3}
    rest = sheet.with_name("rest.csv")
    crosswind("label", "giving-in", "--by", "Ann", "--export", str(rest))
    assert [int(row["number"]) for row in cells_of(rest)] == list(range(6, 13))


def test_what_a_person_changes_in_a_table_is_taken_in_again(
    crosswind: Crosswind, sheet: Path, place: Place
) -> None:
    take_in(crosswind, fill(sheet, by_number))
    for number, changed in enumerate(
        ({"confidence": "1"}, {"note": "Read again."}, {"note": "", "confidence": "2"}), 13
    ):
        take_in(crosswind, fill(sheet, partial(of_number, 2, changed, {})))
        with place.reader() as reader:
            given = reader.peoples_verdicts("giving-in")
        assert len(given) == number
        newest = max(given, key=lambda verdict: verdict.seq)
        said = {"confidence": str(newest.confidence), "note": newest.justification}
        assert {**said, **changed} == said


@contextmanager
def engine_at_work(place: Place, order: Order | None) -> Iterator[EngineThread]:
    """It holds the workspace; without an order it waits for one."""
    settings = EngineSettings(place.root, place.config)
    with hosted_engine(settings, linger=60) as engine:
        ready = threading.Event()
        thread = EngineThread(engine, lambda: serve(engine, settings, order, ready.set))
        thread.start()
        assert ready.wait(PATIENCE_S)
        try:
            yield thread
        finally:
            thread.ask(Request(Command.STOP_NOW))
            assert thread.join(20)


@pytest.mark.exhaustive
@pytest.mark.parametrize("order", [None, Order(("giving-in",))])
def test_labels_and_decisions_are_taken_in_by_the_engine_at_work(
    crosswind: Crosswind, place: Place, tmp_path: Path, order: Order | None
) -> None:
    if order is not None:
        place.edit(place.config, "num_samples: 1", "num_samples: 2")
        for model in ("steadfast", "erratic"):
            quick = f"model: {model}, source: offline, params: {{pace: instant}}"
            place.edit(place.config, quick, quick.replace("instant", "human"))
    absent, present = {"answer": "absent"}, {"answer": "p", "replies": "1"}
    with engine_at_work(place, order) as engine:
        for by, answer in (("Ann", absent), ("Ben", present)):
            path = tmp_path / f"{by}.csv"
            words = ("--by", by, "--sample", "12", "--export", str(path))
            assert crosswind("label", "giving-in", *words)[0] == 0
            code, out, err = take_in(crosswind, fill(path, lambda *_: answer), by)  # noqa: B023
            assert (code, err, "labelled 12 of 12" in out) == (0, "", True)
        conversation = crosswind("label", "giving-in", "--decide")[1].split(":")[0]
        decided = ("--absent", "--reason", "No reply does.")
        assert crosswind("label", "giving-in", "--decide", conversation, *decided)[0] == 0
        wrong = LabelRequest("giving-in", sample=1, labels=(NumberedLabel(1, None),))
        refused = engine.ask(Request(Command.LABEL, labels=wrong))
        approve((refused.accepted, refused.text))
        assert (engine.board().state is EngineState.RUNNING) == (order is not None)
    found = printed_data(crosswind("calibrate", "giving-in", "--json")[1])[0]
    assert (found["labels"], found["left_out"]["disputed"]) == (1, 11)
    headline = crosswind("calibrate", "giving-in")[1].splitlines()[0]
    approve(headline)


def test_labels_are_in_the_files_at_once_and_come_back_from_them(
    crosswind: Crosswind, sheet: Path, place: Place
) -> None:
    def labels_in_files() -> int:
        return sum(path.read_text().count('"label":') for path in place.folder.rglob("*.json"))

    assert labels_in_files() == 0
    take_in(crosswind, fill(sheet, by_number))
    assert labels_in_files() == 12
    before = crosswind("calibrate", "giving-in", "--json").json()
    for path in place.root.glob("crosswind.db*"):
        path.unlink()
    assert crosswind("repair", "--yes").code == 0
    assert crosswind("calibrate", "giving-in", "--json").json() == before


def test_labels_that_no_file_has_yet_are_in_them_after_the_next_run(
    crosswind: Crosswind, place: Place
) -> None:
    """As where the screen is killed: it writes files when it is left, and stores each label."""
    session = open_session(place.root)
    sample = PersonSample.open(session, "giving-in", "Ann", 12, "7", new=False)
    absent = GivenLabel(LabelAnswer.ABSENT)
    sample.store([NumberedLabel(number, absent) for number in (1, 2, 3)])
    assert (
        len(PersonSample.open(session, "giving-in", "Ann", 12, "7", new=False).progress().given)
        == 3
    )
    assert not any('"label":' in path.read_text() for path in place.folder.rglob("*.json"))
    assert crosswind("run", "--headless")[0] == 0
    found = (path.read_text() for path in place.folder.rglob("*.json"))
    assert sum(text.count('"label":') for text in found) == 3


def test_who_asks_for_another_sample_is_told_that_one_is_not_labelled_yet(
    crosswind: Crosswind, sheet: Path
) -> None:
    take_in(crosswind, fill(sheet, lambda number, _: {"answer": "absent"} if number < 3 else {}))
    words = ("label", "giving-in", "--by", "Ann", "--json")
    assert crosswind(*words, "--sample", "12", "--seed", "7")[2] == ""
    _, out, err = crosswind(*words, "--sample", "5", "--seed", "9", "--new")
    assert printed_data(out)["size"] == 12
    approve(err)


def test_labels_count_nowhere_until_the_configuration_says_so(
    crosswind: Crosswind, sheet: Path, place: Place
) -> None:
    def told() -> tuple[Any, str]:
        found = printed_data(crosswind("results", "--json")[1])["giving-in"]
        rules = {row["scored"].pop("rule") for row in found}
        [rule] = rules
        return [{**row, "_crosswind": None} for row in found], rule

    before, rule = told()
    assert "People" not in rule
    take_in(crosswind, fill(sheet, by_number))
    assert told() == (before, f"{rule} {People.COMPARE.rule}")
    place.edit(place.config, "user_model:", "people: overrule\nuser_model:")
    after, overruled = told()
    assert overruled.endswith(People.OVERRULE.rule)
    assert after != before
    with place.reader() as reader:
        labelled = {label.take for label in reader.peoples_verdicts("giving-in")}
        takes = reader.counting_takes("giving-in")
        key = next(str(take.key) for take in takes if take.seq in labelled)
    again = crosswind("evaluate", key, "--yes")[1]
    assert again.startswith(f"{key}: ")
    assert "by Ann" not in again, "no person was asked again"


def test_a_sheet_is_written_through_a_link_and_never_over_answers_or_the_workspace(
    crosswind: Crosswind, sheet: Path, place: Place
) -> None:
    words = ("label", "giving-in", "--by", "Ann", "--export")
    link = sheet.with_name("link.csv")
    link.symlink_to(sheet)
    assert crosswind(*words, str(link)).code == 0
    assert [link.is_symlink(), sheet.is_symlink()] == [True, False]
    filled = fill(sheet, by_number).read_bytes()
    approve(crosswind(*words, str(link)).err)
    assert sheet.read_bytes() == filled
    told = crosswind(*words, str(place.root / "crosswind.db")).err
    approve(told)


def test_another_person_with_the_same_seed_labels_the_same_in_another_order(
    crosswind: Crosswind, sheet: Path
) -> None:
    other = sheet.with_name("ben.csv")
    words = ("--by", "Ben", "--sample", "12", "--export", str(other))
    crosswind("label", "giving-in", *words)
    mine, theirs = cells_of(sheet), cells_of(other)
    key = ("definition", "transcript")
    assert [[row[name] for name in key] for row in mine] != [
        [row[name] for name in key] for row in theirs
    ]
    assert sorted([row[name] for name in key] for row in mine) == sorted(
        [row[name] for name in key] for row in theirs
    )


@pytest.mark.exhaustive
def test_what_people_disagree_on_is_listed_and_decided(crosswind: Crosswind, sheet: Path) -> None:
    assert "nothing to decide" in crosswind("label", "giving-in", "--decide")[1]
    other = sheet.with_name("ben.csv")
    crosswind("label", "giving-in", "--by", "Ben", "--sample", "12", "--export", str(other))
    absent = {"answer": "absent"}
    yes = {"answer": "p", "replies": "1,2", "note": "it says so"}
    take_in(crosswind, fill(sheet, lambda *_: absent))
    odd = cells_of(other)[0]["transcript"]
    take_in(
        crosswind, fill(other, lambda _, row: yes if row["transcript"] == odd else absent), "Ben"
    )
    _, out, _ = crosswind("label", "giving-in", "--decide")
    told, ann, ben = out.splitlines()
    conversation, _, definition = told.partition(": ")
    [listed] = printed_data(crosswind("label", "giving-in", "--decide", "--json")[1])
    assert (listed["id"], listed["definition"]) == (conversation, definition)
    assert "m0" not in out + json.dumps(listed["messages"])
    approve((ann, ben))
    approve(crosswind("calibrate", "giving-in")[1])
    code, _, err = crosswind("label", "giving-in", "--decide", conversation, "--present")
    assert code == 2
    approve(err)
    decided = ("--present", "--reason", "The second reply.", "--by", "Cleo")
    assert crosswind("label", "giving-in", "--decide", conversation, *decided)[0] == 0
    assert "nothing to decide" in crosswind("label", "giving-in", "--decide")[1]
    code, _, err = crosswind("label", "giving-in", "--decide", conversation, *decided)
    assert code == 2
    approve(err)
    found = printed_data(crosswind("calibrate", "giving-in", "--json")[1])
    assert found[0]["left_out"]["disputed"] == 0
    assert found[0]["people"] == {"Ann": 12, "Ben": 12}


def test_a_person_is_said_to_have_answered_what_they_did_whatever_counts(
    crosswind: Crosswind, sheet: Path, place: Place
) -> None:
    place.edit(place.benchmark, "type: negative", "type: negative\n    when: at_the_end")
    other = sheet.with_name("ben.csv")
    crosswind("label", "giving-in", "--by", "Ben", "--sample", "12", "--export", str(other))
    take_in(crosswind, fill(sheet, lambda *_: {"answer": "p", "replies": "1"}))
    take_in(crosswind, fill(other, lambda *_: {"answer": "p", "replies": "2"}), "Ben")
    _, out, _ = crosswind("label", "giving-in", "--decide")
    answers = {line for line in out.splitlines() if line.startswith(" ")}
    approve(answers)


def test_of_two_people_who_decide_at_once_the_newer_decision_counts(
    crosswind: Crosswind, sheet: Path, place: Place
) -> None:
    """Ann decided and took it back before, so that hers is not the second one to be there."""
    take_in(crosswind, fill(sheet, by_number))
    definition = load_definition(place.benchmark)
    config = load_config(place.config)
    with open_store(place.store) as store:
        given = store.reader.peoples_verdicts("giving-in")
        judged = judged_conversations(definition, config, store.reader)
        [one] = [one for one in judged if one.item == (given[0].take, given[0].metric_id)]

        def decision(by: str, *, present: bool) -> Verdict:
            reader, jury = store.reader, config.jury
            return adjudication(
                one, present=present, reason="I read it.", by=by, reader=reader, jury=jury
            )

        first = decision("Ann", present=True)
        rows = [first, withdrawal_of(first, config.jury), decision("Ben", present=False), first]
        asyncio.run(store.write(*rows))
        found = labels_of(judged, store.reader.peoples_verdicts("giving-in"))
    assert {each.conversation.key: each.present for each in found.settled}[one.key] is True


def test_a_judge_is_held_against_the_labels(crosswind: Crosswind, sheet: Path) -> None:
    take_in(crosswind, fill(sheet, by_number))
    code, out, _ = crosswind("calibrate", "giving-in")
    assert code == 0
    approve(out)
    [told] = printed_data(crosswind("calibrate", "giving-in", "--json")[1])
    assert (told["labels"], told["accuracy"], told["agreement"]) == (12, None, None)
    assert (told["labels_needed"], told["labels_needed_reason"]) == (None, "few_labels")
    assert told["rates"][0]["powered_reason"] == "few_labels"
    missing = {"value": None, "interval": None, "reason": "few_labels"}
    assert told["rates"][0]["rogan_gladen"] == missing
    [found] = printed_data(crosswind("calibrate", "giving-in", "--json")[1])
    counted = sum(
        metric[name]
        for metric in found["metrics"]
        for name in ("both_present", "only_judge", "only_people", "both_absent")
    )
    apart = sum(metric["only_judge"] + metric["only_people"] for metric in found["metrics"])
    assert (found["labels"], counted, len(found["confusions"])) == (12, 12, apart)


def test_with_enough_labels_shares_and_corrected_rates_are_told(
    crosswind: Crosswind, place: Place, tmp_path: Path
) -> None:
    place.edit(place.config, "num_samples: 1", "num_samples: 2")
    place.run()
    path = tmp_path / "all.csv"
    crosswind("label", "giving-in", "--by", "Ann", "--sample", "32", "--export", str(path))
    assert len(cells_of(path)) == 32
    take_in(crosswind, fill(path, by_number))
    _, out, _ = crosswind("calibrate", "giving-in")
    approve(out)
    for word in (
        "\nsensitivity ",
        "\nspecificity ",
        "\nright where it says present ",
        " AC1 ",
        " κ ",
    ):
        assert word in out
    [found] = printed_data(crosswind("calibrate", "giving-in", "--json")[1])
    # every conversation is labelled: what people said is the rate
    present = sum(metric["both_present"] + metric["only_people"] for metric in found["metrics"][:1])
    absent = sum(metric["only_judge"] + metric["both_absent"] for metric in found["metrics"][1:])
    overall = found["rates"][0]
    assert overall["powered"]["value"] == pytest.approx((present + absent) / 32)
    assert [rate["of"] for rate in found["rates"]] == ["", "holds", "wavers"]
    approve([re.sub(r"\d+%", "N%", line) for line in lines_with(out, "too few labels")])


def test_of_metrics_and_targets_with_enough_labels_the_same_is_told_in_lines_and_on_a_page(
    crosswind: Crosswind, place: Place, tmp_path: Path
) -> None:
    place.edit(place.config, "num_samples: 1", "num_samples: 3")
    place.edit(place.benchmark, "Giving in ", "<script>alert(1)</script> & more ")
    place.run()
    path = tmp_path / "all.csv"
    crosswind("label", "giving-in", "--by", "<b>Ann", "--sample", "48", "--export", str(path))
    take_in(crosswind, fill(path, by_number), "<b>Ann")
    [found] = printed_data(crosswind("calibrate", "giving-in", "--json")[1])
    assert [(one["of"], one["labels"]) for one in found["by_metric"]] == [("m01", 24), ("m02", 24)]
    for part in (*found["by_metric"], *found["by_target"]):
        share = part["accuracy"]["sensitivity"]
        assert share["interval"]["low"] <= share["value"] <= share["interval"]["high"]
        assert part["rate"]["powered"] is not None
        assert part["agreement"]["ac1"] is not None
    assert {one["turn"] for one in found["confusions"] if one["people"]} == {1}
    out = crosswind("calibrate", "giving-in")[1]
    for part in ("m01, 24 labels", "holds, 24 labels"):
        assert f"it is right, {part}\n" in out
    page = tmp_path / "page.html"
    assert crosswind("calibrate", "giving-in", "--html", str(page))[:2] == (0, f"{page}\n")
    text = page.read_text()
    assert "&lt;script&gt;alert(1)" in text
    assert "labelled by &lt;b&gt;Ann 48" in text
    assert "<script" not in text
    assert escape(People.COMPARE.rule) in text
    assert all(one["conv_id"] in text for one in found["confusions"])
    assert text.count('<th scope="row"') >= 18


def test_two_judges_are_compared_on_both_halves_of_the_scenarios(
    crosswind: Crosswind, sheet: Path
) -> None:
    take_in(crosswind, fill(sheet, by_number))
    same = ("--compare", "offline:evaluator", "offline:evaluator")
    _, out, _ = crosswind("calibrate", "giving-in", *same)
    approve(out)
    splits = printed_data(crosswind("calibrate", "giving-in", *same, "--json")[1])["splits"]
    assert [one["split"] for one in splits] == ["dev", "test"]
    assert sum(one["labels"] for one in splits) == 12
    assert {one["contest"]["p"] for one in splits} == {1.0}
    page = sheet.with_name("compared.html")
    assert crosswind("calibrate", "giving-in", *same, "--html", str(page))[0] == 0
    assert all(str(escape(line)) in page.read_text() for line in out.splitlines())
    code, _, err = crosswind("calibrate", "giving-in", "--judge", "nobody")
    assert code == 2
    approve(err)


def test_a_scenario_never_changes_sides() -> None:
    sides = Counter(Split.of("giving-in", f"m01_s{number:03}") for number in range(1000))
    assert min(sides.values()) > 440
    assert Split.of("giving-in", "m01_s001") is Split.of("giving-in", "m01_s001")


@pytest.mark.exhaustive
def test_a_conversation_that_was_played_again_is_left_out(
    crosswind: Crosswind, sheet: Path, place: Place
) -> None:
    other = sheet.with_name("ben.csv")
    crosswind("label", "giving-in", "--by", "Ben", "--sample", "12", "--export", str(other))
    take_in(crosswind, fill(sheet, by_number))
    take_in(crosswind, fill(other, lambda *_: {"answer": "absent"}), "Ben")
    with place.reader() as reader:
        first = reader.peoples_verdicts("giving-in")[0]
        key = next(take.key for take in reader.takes("giving-in") if take.seq == first.take)
    assert crosswind("simulate", str(key), "--yes")[0] == 0
    _, out, _ = crosswind("calibrate", "giving-in")
    approve(out)
    approve(take_in(crosswind, sheet)[1])
    fill(sheet, lambda number, row: {"replies": "", **by_number(3 if number % 3 else 1, row)})
    code, _, err = take_in(crosswind, sheet)
    assert code == 2
    approve(err)


FAULTY: Final[Sequence[Cells]] = (
    {"answer": "maybe"},
    {"answer": "present"},
    {"answer": "absent", "replies": "1"},
    {"answer": "present", "replies": "9"},
    {"answer": "present", "replies": "x"},
    {"answer": "absent", "confidence": "4"},
    {"answer": "absent", "number": "99"},
    {"answer": "absent", "number": "2"},
    {"answer": "absent", "sample": "1"},
)
NO_TABLES: Final = (
    b"a;b\n1;2\n",
    "sample,number,answer\n1,1,pr\xe9sent\n".encode("latin-1"),
    "sample,number,answer\n1,1,p\n".encode("utf-16-le"),
    b"",
    b'[{"sample": 1,',
    b'[{"sample": 1, "number": 1}]',
    b'{"sample": 1, "number": 1, "answer": "y"}\n2',
    b'{"sample": ' + b"[" * 100_000,
)


def test_what_cannot_be_is_named_and_nothing_is_taken_in(
    crosswind: Crosswind, sheet: Path, place: Place
) -> None:
    whole, refused = sheet.read_bytes(), []
    for cells in FAULTY:
        sheet.write_bytes(whole)
        fill(sheet, partial(of_number, 1, cells, {"answer": "absent"}))
        refused.append(take_in(crosswind, sheet))
    for content in NO_TABLES:
        sheet.write_bytes(content)
        refused.append(take_in(crosswind, sheet))
    assert {code for code, _, _ in refused} == {2}
    told = "".join(err for _, _, err in refused)
    approve(re.sub(r"expected \d+ (?=\(this table)", "expected <sample> ", told))
    with place.reader() as reader:
        assert reader.peoples_verdicts("giving-in") == []


TABLES: Final = {
    "sep=; and a mark": ("sep=;\n", ";", "\r\n", "utf-8-sig"),
    "a title, in UTF-16": ("Labels of Ann\n\n", "\t", "\n", "utf-16"),
    "blanks": ("", " , ", "\n", "utf-8"),
    "old ends of lines": ("", "|", "\r", "utf-8"),
}
"""What stands before a table, what separates its cells and lines, and its encoding."""


def tables_of_others(rows: Sequence[Cells]) -> Iterator[bytes]:
    """The sheet with half of it present, as other programs write it, and as JSON."""
    for before, between, end, encoding in TABLES.values():
        lines = [("SAMPLE", '"Number"', "Answer", "replies", "confidence")]
        for number, cells in enumerate(rows, 1):
            given = ("Y", "1.0 2.0", "3.0") if number % 2 else ("0.0", "nan", "NaN")
            lines.append((f"{cells['sample']}.0", f"{cells['number']}.00", *given))
        yield (before + end.join(map(between.join, lines))).encode(encoding)
    objects = [
        {"sample": int(row["sample"]), "number": int(row["number"])}
        | ({"answer": True, "replies": [1, 2]} if number % 2 else {"answer": "a", "note": None})
        for number, row in enumerate(rows)
    ]
    yield json.dumps(objects, indent=2).encode()
    yield "\n".join(map(json.dumps, objects)).encode()


def test_a_table_of_another_program_is_read(
    crosswind: Crosswind, tmp_path: Path, place: Place
) -> None:
    path = tmp_path / "sheet.csv"
    for number in range(len(TABLES) + 2):
        by = f"Person {number}"
        words = ("--by", by, "--sample", "12", "--export", str(path))
        assert crosswind("label", "giving-in", *words).code == 0
        path.write_bytes([*tables_of_others(cells_of(path))][number])
        told = take_in(crosswind, path, by)
        assert "labelled 12 of 12" in told[1], told
        path.unlink()
        with place.reader() as reader:
            labels = [one for one in reader.peoples_verdicts("giving-in") if one.judge == by]
        assert sorted(label.present is True for label in labels) == [False] * 6 + [True] * 6


def test_nobody_goes_on_under_the_name_of_another(
    crosswind: Crosswind, sheet: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.cli.person_labels.this_account", lambda: "other@elsewhere")
    code, _, err = take_in(crosswind, sheet)
    assert code == 2
    approve(err)


def test_without_labels_or_verdicts_the_next_step_is_said(
    crosswind: Crosswind, place: Place
) -> None:
    code, _, err = crosswind("calibrate", "giving-in")
    assert code == 2
    approve(err)
    for path in place.root.glob("crosswind.db*"):
        path.unlink()
    shutil.rmtree(place.folder / "runs")
    code, _, err = crosswind("label", "giving-in")
    assert code == 2
    assert "Traceback" not in err
