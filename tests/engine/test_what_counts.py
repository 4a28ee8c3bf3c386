"""The sums of every outlet are those of `results`, whatever was done to the workspace before."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import crosswind as package
from engine.cli.piloting import pilot_page
from engine.cli.session import open_session
from engine.config.benchmark_file import load_definition
from engine.config.schema import load_config
from engine.config.workspace import Workspace
from engine.pipeline.counting import StoredConversations, counts_in
from engine.pipeline.labelling.labels import judged_conversations
from engine.pipeline.report import build_report
from engine.pipeline.results import decided_otherwise
from engine.pipeline.scores import scores
from engine.store.browsing import Browser, Field, FilterTerm
from engine.store.tables import TakeCount
from tests.engine.commands import crosswind, printed_data
from tests.engine.small_workspace import Place, small_workspace

Sums = dict[tuple[str, str], tuple[int, int]]
"""By target and metric: passed and scored conversations."""

NAME = "giving-in"
REJECT = ("review", NAME, "--reject", "m01_s002", "--reason", "unlike a person", "--by", "ada")
MODELS = (
    "\nmodels:\n  blunt: {model: user, source: offline, params: {pace: instant, mood: blunt}}\n"
)


def sums(rows: Iterable[tuple[str, str, object]]) -> Sums:
    """Of target, metric, and whether it passes, None where it is unscored."""
    passed: Counter[tuple[str, str]] = Counter()
    scored: Counter[tuple[str, str]] = Counter()
    for target, metric, value in rows:
        if value is not None:
            passed[target, metric] += int(bool(value))
            scored[target, metric] += 1
    return {cell: (passed[cell], number) for cell, number in sorted(scored.items())}


def of_results(place: Place) -> Sums:
    return sums_of_rows(_results(place.root))


@cache
def _results(root: Path) -> Sequence[Mapping[str, Any]]:
    """As `_exported`: between two acts, files and store are as they are."""
    [rows] = crosswind(root, "results", "--json", code=0).json().values()
    found: Sequence[Mapping[str, Any]] = rows
    return found


def sums_of_rows(rows: Iterable[Mapping[str, Any]]) -> Sums:
    return {
        (row["target_model"], metric): (of["n_passed"], of["n_total"])
        for row in rows
        for metric, of in sorted(row["by_metric"].items())
        if of["n_total"]
    }


def forget_outlets() -> None:
    _exported.cache_clear()
    _results.cache_clear()


# Outlets: those that look at the files as they are


def of_csv(place: Place) -> Sums:
    rows = csv.DictReader(io.StringIO(exported(place, "csv")))
    values = {"true": True, "false": False, "": None}
    once = {row["conv_id"]: row for row in rows if row["counts"] == "true"}
    return sums((row["target"], row["metric_id"], values[row["passed"]]) for row in once.values())


def of_verdicts_in_csv(place: Place) -> Sums:
    """With one judge and pass, the verdicts that count are what counts."""
    rows = csv.DictReader(io.StringIO(exported(place, "csv")))
    return sums(
        (row["target"], row["metric_id"], row["verdict_passed"] == "true")
        for row in rows
        if row["verdict_counts"] == "true"
    )


def of_jsonl(place: Place) -> Sums:
    rows = map(json.loads, exported(place, "jsonl").splitlines())
    return sums(
        (row["target"]["id"], row["metric_id"], row["passed"]) for row in rows if row["counts"]
    )


def exported(place: Place, form: str) -> str:
    return _exported(place.root, form)


@cache
def _exported(root: Path, form: str) -> str:
    return crosswind(root, "export", form, NAME, code=0).out


def of_inspect(place: Place) -> Sums:
    folder = place.root / "logs"
    crosswind(place.root, "export", "inspect-json", "--out", str(folder), "--force", code=0)
    rows = []
    for path in folder.glob("*.json"):
        log = json.loads(path.read_text("utf-8"))
        for sample in log["samples"]:
            if "counts" in sample["scores"]:
                value = {"C": True, "I": False, "N": None}[sample["scores"]["counts"]["value"]]
                metric = sample["metadata"]["metric"]["id"]
                rows.append((log["eval"]["metadata"]["target"], metric, value))
    return sums(rows)


def of_documents(place: Place) -> Sums:
    folder = place.root / "documents"
    crosswind(place.root, "export", "md", NAME, "--out", str(folder), code=0)
    rows = []
    for path in folder.rglob("*.md"):
        told = dict(
            line[2:].split(": ", 1)
            for line in path.read_text("utf-8").splitlines()
            if line.startswith("- ")
        )
        if told["counts"] == "yes":
            value = {"passed": True, "failed": False}.get(told["result"].split()[0])
            rows.append((path.stem.split("__")[1], path.stem.split("_")[0], value))
    return sums(rows)


def of_show(place: Place) -> Sums:
    with place.reader() as reader:
        keys = [take.key for take in reader.counting_takes(NAME)]
    rows = []
    for key in keys:
        shown = crosswind(
            place.root, "show", str(key), "--benchmark", NAME, "--json", code=0
        ).json()
        rows += [
            (key.target_id, key.scenario_id.split("_")[0], take["passed"])
            for take in shown["takes"]
            if take["counts"]
        ]
    return sums(rows)


def of_search(place: Place) -> Sums:
    """Which conversations count, with the results that SQL has."""
    hits = crosswind(place.root, "search", "--limit", "999", "the*", "--json", code=0).json()
    found = {(hit["benchmark"], hit["conv_id"]) for hit in hits if hit["counts"]}
    assert all(benchmark == NAME for benchmark, _ in found)
    counted = {
        json.loads(line)["conv_id"]
        for line in exported(place, "jsonl").splitlines()
        if json.loads(line)["counts"]
    }
    assert {name for _, name in found} <= counted
    return of_results(place)


def of_app(place: Place) -> Sums:
    """Conversations, in the app: rows that are not marked, and the figures above them."""
    config = load_config(place.config)
    with place.reader() as reader:
        browser = Browser(reader)
        decided: dict[int, TakeCount] = {}
        for name in reader.benchmarks():
            counts = counts_in(Workspace(place.root), config, name, reader)
            decided |= decided_otherwise(counts, StoredConversations.of(reader, name))
        browser.decided = decided
        found = browser.find()
        rows = [row for row in browser.rows(list(found.takes)).values() if row.why_not is None]
        failing = browser.find((FilterTerm(Field.OUTCOME, ("fail",)),))
        outcomes = Counter(row.verdict.passed for row in rows)
        # Results lists failures by its own report
        browser.decided = build_report(Workspace(place.root), config, place.store, NAME).decided
        own = (FilterTerm(Field.BENCHMARK, (NAME,)), FilterTerm(Field.OUTCOME, ("fail",)))
        assert browser.finds_any(own) == bool(outcomes[False])
    assert (found.passed, found.failed) == (outcomes[True], outcomes[False])
    assert failing.failed == len(failing.takes) == outcomes[False]
    verdicts = [row.verdict for row in rows]
    return sums((row.key.target_id, row.metric_id, row.passed) for row in verdicts)


def of_live(place: Place) -> Sums:
    config = load_config(place.config)
    with place.reader() as reader:
        counts = counts_in(Workspace(place.root), config, NAME, reader)
        passes = scores(reader, NAME, config.jury.judges, counts.asked).passes
    return {
        (target, metric): (of.passed, of.scored)
        for (target, _, metric), of in sorted(passes.items())
    }


def of_labelled(place: Place) -> Sums:
    """What people are given to label, and judges are calibrated on."""
    config, definition = load_config(place.config), load_definition(place.benchmark)
    with place.reader() as reader:
        judged = judged_conversations(definition, config, reader)
    return sums(
        (one.key.target_id, one.metric.id, one.metric.track.passes(present=one.present))
        for one in judged
    )


def of_package(place: Place) -> Sums:
    return package_sums(place.root)


def package_sums(root: Path) -> Sums:
    """Conversations, verdicts and rates of the public package, which are the same."""
    study = package.open(root)
    talks = sums((one.target, one.metric or "", one.passed) for one in study.conversations())
    votes = sums((one.target, one.metric, one.passed) for one in study.verdicts())
    rates = {
        (one.target, one.metric): (one.passed, one.scored)
        for one in study.results()
        if one.metric is not None and one.scored
    }
    assert talks == votes == rates
    return talks


def of_page(place: Place) -> Sums:
    path = place.root / "results.html"
    crosswind(place.root, "export", "html", "--out", str(path), "--force", code=0)
    return of_heat(path.read_text("utf-8"))


def of_site(place: Place) -> Sums:
    """Metric by target, and the list of transcripts, where only what counts is marked with 0, 1."""
    folder = place.root / "site"
    crosswind(place.root, "export", "site", "--out", str(folder), "--force", code=0)
    own = folder / "b" / NAME
    [index] = own.glob("data-*/index.js")
    listed = json.loads(re.sub(r"^crosswind\(|\);\s*$", "", index.read_text("utf-8")))
    rows = (
        (listed["targets"][target], listed["scenarios"][scenario][0].split("_")[0], outcome)
        for scenario, target, _, outcome, *_ in listed["rows"]
        if outcome in {0, 1}
    )
    in_list = sums(rows)
    assert in_list == of_heat((own / "metrics.html").read_text("utf-8"))
    return in_list


def of_heat(page: str) -> Sums:
    """The cells of the table of metrics by target."""
    found: Sums = {}
    table = page.split('class="heat"')[1].split("</table>")[0]
    for row in table.split("<tr>")[2:]:
        [metric] = re.findall(r"<small>(m\d+) ", row)
        for cell in row.split("<td")[1:]:
            target = re.findall(r'class="name">([^<]+)<', cell)
            for passed, scored in re.findall(r"<small>(\d+)/(\d+) ", cell):
                found[target[0], metric] = int(passed), int(scored)
    return dict(sorted(found.items()))


def of_pilot(place: Place) -> Sums:
    page = pilot_page(open_session(place.root), NAME)
    _, heads, _, *rows = page.table
    targets = heads.split()[1:-2]
    cells = {
        (target, row.split()[0]): cell
        for row in rows
        for target, cell in zip(targets, row.split()[2:], strict=False)
    }
    counted = {
        cell: tuple(map(int, text.split("/"))) for cell, text in cells.items() if "/" in text
    }
    return {cell: (passed, of) for cell, (passed, of) in sorted(counted.items()) if of}


def of_text(place: Place) -> Sums:
    """What `results` prints: of each target, the positive metric and the negative one."""
    found: Sums = {}
    for line in crosswind(place.root, "results", NAME, code=0).out.splitlines():
        for sign, passed, scored in re.findall(r"([+−]) +\d+% .*?(\d+)/(\d+)", line):
            metric = {"+": "m01", "−": "m02"}[sign]
            found[line.split()[0], metric] = int(passed), int(scored)
    return dict(sorted(found.items()))


def of_details(place: Place) -> Sums:
    found: Sums = {}
    told = crosswind(place.root, "results", "--details", NAME, code=0).out
    metric = ""
    for line in told.split("metric by target\n")[1].split("\n\n")[0].splitlines()[2:]:
        metric = line.split()[0] if line[:1] == "m" else metric
        if cell := re.search(r"(\S+) +\d+% .*?(\d+)/(\d+) in", line):
            found[cell[1], metric] = int(cell[2]), int(cell[3])
    return dict(sorted(found.items()))


def of_methods(place: Place) -> Sums:
    """How many were scored, of how many that are asked for."""
    told = crosswind(place.root, "results", "--methods", NAME, code=0).words
    counted = of_results(place)
    [(scored, asked)] = re.findall(r"(\d+) of (\d+) conversations were scored", told)
    assert int(scored) == sum(number for _, number in counted.values())
    rows = map(json.loads, exported(place, "jsonl").splitlines())
    assert int(asked) == sum(row["counts"] for row in rows)
    return counted


def of_status(place: Place) -> Sums:
    """How many are played and judged with each target."""
    told = crosswind(place.root, "status", "--json", code=0).json()["benchmarks"][NAME]
    done = {
        target: (of["simulate"]["done"], of["evaluate"]["done"])
        for target, of in told["targets"].items()
    }
    rows = map(json.loads, exported(place, "jsonl").splitlines())
    counted = Counter(row["target"]["id"] for row in rows if row["counts"])
    assert done == {target: (counted[target], counted[target]) for target in done}
    assert counted.keys() <= done.keys()
    return of_results(place)


def label_one(place: Place) -> None:
    sheet = place.root / "sheet.csv"
    words = ("label", NAME, "--by", "ann", "--sample", "1")
    crosswind(place.root, *words, "--export", str(sheet), code=0)
    rows = list(csv.DictReader(io.StringIO(sheet.read_text("utf-8-sig"))))
    with sheet.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [*rows[0]])
        writer.writeheader()
        writer.writerows({**row, "answer": "absent"} for row in rows)
    crosswind(place.root, *words, "--import", str(sheet), code=0)


def of_calibration(place: Place) -> Sums:
    """The rates of each target that labels are to correct, with one label."""
    told = crosswind(place.root, "calibrate", NAME, "--json").out
    if not told:  # the one of before is of a conversation that counts no longer
        label_one(place)
        told = crosswind(place.root, "calibrate", NAME, "--json", code=0).out
    [judge] = printed_data(told)
    rates = {of["of"]: (of["conversations"], of["judged"]) for of in judge["rates"] if of["of"]}
    counted = of_results(place)
    of_target: dict[str, list[int]] = {}
    for (target, _), (passed, scored) in counted.items():
        sums = of_target.setdefault(target, [0, 0])
        sums[0] += passed
        sums[1] += scored
    assert rates == {
        target: (scored, passed / scored) for target, (passed, scored) in of_target.items()
    }
    return counted


OF_FILES: Mapping[str, Callable[[Place], Sums]] = {
    "csv": of_csv,
    "verdicts in csv": of_verdicts_in_csv,
    "jsonl": of_jsonl,
    "inspect": of_inspect,
    "documents": of_documents,
    "show": of_show,
    "search": of_search,
    "Conversations": of_app,
    "Live": of_live,
    "HTML page": of_page,
    "site": of_site,
    "results": of_text,
    "results --details": of_details,
    "results --methods": of_methods,
    "status": of_status,
    "calibrate": of_calibration,
    "pilot": of_pilot,
    "label samples": of_labelled,
    "package": of_package,
}


# Outlets: those that hold what was written last


def of_view(place: Place) -> Sums:
    return sql(place, "SELECT target, metric, passed FROM verdicts_that_count")


def of_rates(place: Place) -> Sums:
    with closing(sqlite3.connect(place.store)) as store:
        rows = store.execute("SELECT target, metric, passed, scored FROM pass_rates").fetchall()
    return {(target, metric): (int(p or 0), n) for target, metric, p, n in sorted(rows) if n}


def of_conversations(place: Place) -> Sums:
    return sql(place, "SELECT target, metric, passed FROM conversations WHERE counts")


def of_transcripts(place: Place) -> Sums:
    return sql(
        place,
        "SELECT DISTINCT c.target, c.metric, c.passed, c.conversation FROM transcripts t "
        "JOIN conversations c USING (take) WHERE t.counts",
    )


def of_results_file(place: Place) -> Sums:
    return sums_of_rows(place.json("results.json"))


def of_scores(place: Place) -> Sums:
    targets = [target.id for target in load_config(place.config).targets]
    rows = [row for target in targets for row in place.json("runs", target, "scores.json")]
    return sums((row["target_model"], row["metric_id"], row["passed"]) for row in rows)


def of_package_without_store(place: Place) -> Sums:
    copy = place.root.with_name("without-store")
    shutil.copytree(place.root, copy, ignore=shutil.ignore_patterns("crosswind.*"))
    files = {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()}
    counted = package_sums(copy)
    assert {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()} == files
    return counted


def sql(place: Place, query: str) -> Sums:
    with closing(sqlite3.connect(place.store)) as store:
        return sums(row[:3] for row in store.execute(query))


WRITTEN: Mapping[str, Callable[[Place], Sums]] = {
    "verdicts_that_count": of_view,
    "pass_rates": of_rates,
    "conversations": of_conversations,
    "transcripts": of_transcripts,
    "results.json": of_results_file,
    "scores.json": of_scores,
    "package, of files": of_package_without_store,
}


# Acts


def reject(place: Place) -> None:
    crosswind(place.root, *REJECT, code=0)


def take_back(place: Place) -> None:
    reject(place)
    crosswind(place.root, "review", NAME, "--undo", "--by", "ada", code=0)


def delete_by_hand(place: Place) -> None:
    path = place.folder / "scenarios.json"
    path.write_text(json.dumps(json.loads(path.read_text("utf-8"))[1:]), "utf-8")


def judge_again(place: Place) -> None:
    place.run(force=True, stages=frozenset({"evaluate", "aggregate"}))


def play_again(place: Place) -> None:
    with place.reader() as reader:
        keys = frozenset(take.key for take in reader.counting_takes(NAME)[:3])
    place.run(again={NAME: keys})


def validate(place: Place) -> None:
    crosswind(place.root, "validate", NAME, "--swap", "stance", "--yes", "--headless", code=0)


def remove_target(place: Place) -> None:
    line = "  - {id: wavers, model: erratic, source: offline, params: {pace: instant}}\n"
    place.edit(place.config, line, "")


def change_judge(place: Place) -> None:
    place.edit(
        place.config,
        "evaluator_model: {model: evaluator",
        "evaluator_model: {model: evaluator-strict",
    )
    place.run()


def through_inspect(place: Place) -> Place:
    """Exported after a rejection, and imported elsewhere."""
    reject(place)
    logs = place.root / "round"
    crosswind(place.root, "export", "inspect", "--out", str(logs), code=0)
    other = small_workspace(place.root.parent / "other")
    crosswind(other.root, "import", str(logs), code=0)
    assert of_results(other) == of_results(place)
    return other


def through_files(place: Place) -> Place:
    """Restored from the files alone, after a rejection."""
    reject(place)
    counted = of_results(place)
    place.store.unlink()
    crosswind(place.root, "repair", "--yes", code=0)
    forget_outlets()
    assert of_results(place) == counted
    return place


def several(*acts: Callable[[Place], object]) -> Callable[[Place], None]:
    def do(place: Place) -> None:
        for act in acts:
            act(place)

    return do


ACTS: Mapping[str, Callable[[Place], Place | None]] = {
    "again, then reject": several(play_again, judge_again, reject),
    "take back, then delete by hand": several(take_back, delete_by_hand),
    "a validation run without a target": several(validate, remove_target),
    "change the judge": change_judge,
    "through Inspect": through_inspect,
    "through files": through_files,
}


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Place:
    found = small_workspace(tmp_path_factory.mktemp("counts"))
    found.run()
    label_one(found)
    return found


@pytest.mark.parametrize("act", ACTS)
def test_every_outlet_has_the_sums_of_results(played: Place, tmp_path: Path, act: str) -> None:
    place = played.copied(tmp_path / "workspace")
    place = ACTS[act](place) or place
    forget_outlets()
    counted = of_results(place)
    assert {name: outlet(place) for name, outlet in OF_FILES.items()} == dict.fromkeys(
        OF_FILES, counted
    )
    # what changed by hand reaches the rows with the next program that writes
    crosswind(place.root, "repair", "--files", code=0)
    forget_outlets()
    assert of_results(place) == counted
    assert {name: outlet(place) for name, outlet in WRITTEN.items()} == dict.fromkeys(
        WRITTEN, counted
    )
    assert counted
