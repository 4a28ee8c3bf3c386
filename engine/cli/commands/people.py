"""The commands with which people review, label and compare."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from engine.cli.commands.typed import (
    BENCHMARK,
    BY,
    TRUST,
    YES,
    CliCommand,
    flag,
    option,
)


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
