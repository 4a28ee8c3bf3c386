"""The commands that show results and what is stored, and write it to files of other formats; and
those with which people review, label and compare."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Final

from engine.cli.commands.typed import (
    BENCHMARK,
    BENCHMARKS,
    BY,
    FAIL_UNDER,
    JSON,
    TRUST,
    WHOSE_ID,
    YES,
    CliCommand,
    flag,
    option,
    required,
    several,
    words,
)
from engine.errors import InputError, Problem


class ResultsCommand(CliCommand):
    does = "show pass rates with their intervals, and which differences are significant"
    more = "In about ten lines for each benchmark; --details shows everything."
    examples: ClassVar = {
        "crosswind results giving-in --details": "all tables of one benchmark",
        "crosswind results --methods": "a methods section for a paper",
    }
    runs = "reporting.results"

    benchmarks: list[str] = BENCHMARKS
    json: bool = flag("print what results.json holds", one_of="shape")
    methods: bool = flag(
        "describe what was done and how it was counted, with formulas, for a paper", one_of="shape"
    )
    details: bool = flag("add metrics, pairs of targets, demographic gaps and agreement")
    overall: bool = flag("compare the targets over all these benchmarks, with equal weights")
    fresh: bool = flag("leave out stale takes and verdicts: those that `run --stale` would redo")
    fail_under: list[str] = FAIL_UNDER
    target: list[str] = several("ID", "hold only this target to --fail-under; may be repeated")


class ShowCommand(CliCommand):
    does = "show a metric, scenario or conversation: setup, transcript, verdicts"
    examples: ClassVar = {
        "crosswind show m01": "a metric",
        "crosswind show m01_s002": "a scenario",
        "crosswind show m01_s002_v01__alpha": "a conversation",
    }
    runs = "showing.show"

    id: str = required("ID", "or its beginning, if no other id begins with it")
    benchmark: str | None = WHOSE_ID
    json: bool = JSON


class SearchCommand(CliCommand):
    does = "find words in all transcripts"
    examples: ClassVar = {
        "crosswind search doctor appointment": "messages with both words",
        "crosswind search '\"see a doctor\"' --by target": "these words in this order",
    }
    runs = "showing.search"

    text: list[str] = words("WORD", "words that a message must contain", least=1)
    by: str | None = option(None, "search only what this side said", choices=["user", "target"])
    benchmark: str | None = option("NAME", "search only this benchmark")
    limit: int = option("N", "show at most this many", default=20, type=int)
    json: bool = JSON


FORMATS: Final = {
    "csv": "a line for each verdict, safe to open in a spreadsheet",
    "labels": "a line for each label of a person, for a spreadsheet",
    "rates": "a line for each target and metric with its pass rate, for a spreadsheet",
    "jsonl": "an object a line for each conversation",
    "md": "a folder with a document for each conversation",
    "html": "one self-contained page with the results (default: results.html)",
    "site": "a folder of web pages with results and every transcript behind them, which needs no "
    "server; an earlier site there is replaced",
    "inspect": "a folder with a log of Inspect for each benchmark and target",
    "inspect-json": "the same, as JSON",
    "archive": "the whole study in one file without keys, each file with its checksum, which "
    "`crosswind import` opens again (default: study.zip)",
}
"""What `export` writes, by format."""


class ExportCommand(CliCommand):
    does = "write results, conversations and verdicts to files of other formats"
    more = "\n".join(
        [
            *(f"{name}: {what}" for name, what in FORMATS.items()),
            "A site and its files contain all messages, thoughts and verdicts, and no key.",
        ]
    )
    examples: ClassVar = {
        "crosswind export csv --out verdicts.csv": "a line for each verdict",
        "crosswind export md m01_s002 --out read": "some conversations to read",
        "crosswind export csv --filter outcome:fail": "only what did not pass",
        "crosswind export html giving-in": "one page for a browser",
        "crosswind export site --out pages": "then open pages/index.html",
    }
    runs = "exporting.export"

    format: str = required("FORMAT", ", ".join(FORMATS), choices=list(FORMATS))
    names: list[str] = words(
        "BENCHMARK|ID", "ids in csv, jsonl, md, labels and inspect only (default: all)"
    )
    benchmark: str | None = WHOSE_ID
    out: Path | None = option("FILE|DIR", "where to write (default: standard output)", type=Path)
    overall: bool = flag(
        "in html: compare the targets over all these benchmarks, with equal weights"
    )
    fresh: bool = flag("in html and rates: leave out stale takes and verdicts")
    filter: str | None = option(
        "LINE",
        "in csv, jsonl, md, labels and inspect: only judged conversations that match, as in the "
        "app: outcome:fail target:gpt is:split -who:age=old",
    )
    force: bool = flag("replace what is there")

    def carried_out_by(self) -> str:
        other = _OF_RESULTS.get(self.format)
        if self.overall and self.format != "html":
            hint = "`crosswind results --overall --json` has the figures"
            raise InputError(Problem("--overall goes with html", hint=hint))
        if other is not None and self.filter is not None:
            hint = "--filter goes with csv, jsonl, md, labels and inspect"
            what = f"{self.format} holds results, which are of all that counts"
            raise InputError(Problem(what, hint=hint))
        return other or self.runs


_OF_RESULTS: Final = {
    "html": "pages.export_page",
    "rates": "reporting.export_rates",
    "site": "publishing.site",
    "archive": "publishing.export_archive",
}
"""What writes the formats that hold results: each loads what the others do not need."""


class ReviewCommand(CliCommand):
    does = "approve or reject what a model wrote: metrics, base scenarios, variants"
    more = (
        "Without an option it lists what waits for a person, with what the lint rules find in it. "
        "With `review: required` in config.yaml, nothing is played before it is approved. An ID "
        "that ends with * stands for all ids that begin with it."
    )
    examples: ClassVar = {
        "crosswind review giving-in": "what waits",
        "crosswind review --with reader": "a model reads it, too",
        "crosswind review giving-in --approve 'm01*'": "a metric and its scenarios",
        "crosswind review giving-in --reject m02_s003": "a scenario and its variants",
    }
    runs = "reviewing.review"

    benchmark: str | None = BENCHMARK
    lists: bool = flag("list what waits (the default)", name="--list", one_of="act")
    approve: list[str] | None = option(
        "ID", "let these be played and counted", nargs="+", one_of="act"
    )
    reject: list[str] | None = option(
        "ID", "keep these from being played and counted", nargs="+", one_of="act"
    )
    model: str | None = option(
        "NAME",
        "have a model read all metrics and base scenarios for faults that no rule finds: a name in "
        "`models:` or a target's id; shows the price first",
        name="--with",
        one_of="act",
    )
    undo: bool = flag("take back your last decision", one_of="act")
    reason: str | None = option("TEXT", "why these are rejected")
    by: str | None = BY
    yes: bool = YES
    trust: bool = TRUST
    json: bool = flag("print every metric and scenario with its state as JSON")


class LabelCommand(CliCommand):
    does = "label a sample of conversations yourself, blind: is the behaviour there?"
    more = (
        "In a terminal one at a time, with keys; or as a CSV. You see what the evaluator sees, a "
        "transcript and a definition, with a number instead of the id. The sample is stratified "
        "by verdict, metric and target; the same seed draws the same sample for others. "
        "`crosswind calibrate` shows how far the labels and the judge agree."
    )
    examples: ClassVar = {
        "crosswind label giving-in": "in the terminal",
        "crosswind label giving-in --export labels.csv": "or in a spreadsheet,",
        "crosswind label giving-in --import labels.csv": "and back",
        "crosswind label giving-in --decide": "settle what differs",
    }
    runs = "labelling.label"

    benchmark: str | None = BENCHMARK
    decide: str | None = option(
        "ID",
        "decide on what people labelled differently: without an id with keys, or listed where "
        "there is no terminal",
        nargs="?",
        const="",
    )
    present: bool = flag("with --decide ID: the behaviour is there", one_of="decision")
    absent: bool = flag("with --decide ID: it is not", one_of="decision")
    reason: str | None = option("TEXT", "with --decide ID: why")
    sample: int | None = option("N", "how many conversations (default: 60)", type=int)
    seed: str | None = option("WORD", "seed of the random draw (default: 7)")
    by: str | None = BY
    new: bool = flag("draw a further sample when this one is labelled")
    write: Path | None = option(
        "FILE", "write what is not labelled yet as CSV", name="--export", type=Path
    )
    read: Path | None = option(
        "FILE", "read labels from a CSV that was filled in", name="--import", type=Path
    )
    json: bool = flag("print how many are labelled, or what is to be decided, as JSON")


class CalibrateCommand(CliCommand):
    does = "show how far a judge can be trusted, measured against people's labels"
    more = (
        "Sensitivity, specificity, agreement, and pass rates corrected for the judge's errors "
        "beside the raw ones, weighted by how the sample was drawn and clustered by base scenario."
    )
    examples: ClassVar = {
        "crosswind calibrate giving-in": "every judge against the labels",
        "crosswind calibrate giving-in --compare a b": "two judges on the same labels",
    }
    runs = "labelling.run_calibrate"

    benchmark: str | None = BENCHMARK
    judge: str | None = option("NAME", "this judge only, as verdicts name it")
    compare: list[str] | None = option(("A", "B"), "compare two judges on the same labels", nargs=2)
    width: float = option(
        "SHARE",
        "say how many labels make the interval of the corrected pass rate this wide",
        default=0.1,
        type=float,
    )
    json: bool = flag("print JSON, for scripts", one_of="shape")
    html: str | None = option(
        "FILE",
        "write one self-contained page for a browser (default: calibration.html)",
        nargs="?",
        const="",
        one_of="shape",
    )
