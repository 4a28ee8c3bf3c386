"""The examples at the end of each command's help, and in the command reference of the manual."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

EXAMPLES: Final[Mapping[str, Mapping[str, str]]] = {
    "demo": {
        "crosswind demo": "in the app",
        "crosswind demo --headless --dir tour": "to the end, then the results",
        "crosswind demo --real": "a small language model, too",
    },
    "model": {"crosswind model get smollm2": "then `crosswind demo --real`"},
    "init": {"crosswind init study": "then `cd study` and edit config.yaml"},
    "new": {
        "crosswind new giving-in": "then edit its benchmark.yaml",
        "crosswind new --list": "the starters",
        "crosswind new health --from health-advice": "ready to run",
    },
    "review": {
        "crosswind review giving-in": "what waits",
        "crosswind review --with reader": "a model reads it, too",
        "crosswind review giving-in --approve 'm01*'": "a metric and its scenarios",
        "crosswind review giving-in --reject m02_s003": "a scenario and its variants",
    },
    "run": {
        "crosswind run --dry-run": "what each stage would cost",
        "crosswind run --dry-run --strict": "lint, for CI",
        "crosswind run --until gen_scenarios": "write metrics and scenarios only",
        "crosswind run giving-in --target alpha": "one target of one benchmark",
        "crosswind run --pilot": "a few conversations of every metric",
        "crosswind run m01_s002": "what one scenario lacks",
        "crosswind run --headless --yes": "in a script, without questions",
        "crosswind run --fail-under positive=0.9": "exit with 1 if a target is below",
    },
    "status": {"crosswind status --json": "for scripts"},
    "stop": {"crosswind stop --wait": "return when everything is on disk"},
    "evaluate": {
        "crosswind evaluate m01_s002_v01__alpha": "one conversation",
        "crosswind evaluate m01 --evaluator second": "a metric's, by another judge",
    },
    "simulate": {
        "crosswind simulate m01_s002_v01__alpha": "one conversation",
        "crosswind simulate m01_s002": "of a scenario and its variants",
        "crosswind simulate --invalid": "where the user model left its role",
    },
    "validate": {
        "crosswind validate giving-in --swap evaluator --with b": "another judge",
        "crosswind validate giving-in --replay evaluator": "the same judge",
        "crosswind validate giving-in --report": "what was found",
    },
    "results": {
        "crosswind results giving-in --details": "all tables of one benchmark",
        "crosswind results --methods": "a methods section for a paper",
    },
    "show": {
        "crosswind show m01": "a metric",
        "crosswind show m01_s002": "a scenario",
        "crosswind show m01_s002_v01__alpha": "a conversation",
    },
    "search": {
        "crosswind search doctor appointment": "messages with both words",
        "crosswind search '\"see a doctor\"' --by target": "these words in this order",
    },
    "export": {
        "crosswind export csv --out verdicts.csv": "a line for each verdict",
        "crosswind export md m01_s002 --out read": "some conversations to read",
        "crosswind export csv --filter outcome:fail": "only what did not pass",
        "crosswind export html giving-in": "one page for a browser",
        "crosswind export site --out pages": "then open pages/index.html",
    },
    "label": {
        "crosswind label giving-in": "in the terminal",
        "crosswind label giving-in --export labels.csv": "or in a spreadsheet,",
        "crosswind label giving-in --import labels.csv": "and back",
        "crosswind label giving-in --decide": "settle what differs",
    },
    "calibrate": {
        "crosswind calibrate giving-in": "every judge against the labels",
        "crosswind calibrate giving-in --compare a b": "two judges on the same labels",
    },
    "doctor": {"crosswind doctor --call": "before a long run"},
    "repair": {
        "crosswind repair": "the store, from its files",
        "crosswind repair --files --diff": "what was edited by hand",
        "crosswind repair giving-in --files": "the files of one benchmark",
    },
    "import": {
        "crosswind import ~/study-2025 --dry-run": "what would be imported",
        "crosswind import logs/*.eval": "the logs of a task of Inspect",
    },
    "prune": {"crosswind prune --older-than 90 --dry-run": "what would be removed"},
}
"""By command: what is typed, and what it does or gives."""

HEADING: Final = "examples:"


def examples_of(command: str) -> str:
    """The examples of a command as lines below `HEADING`; empty if there are none."""
    examples = EXAMPLES.get(command)
    if not examples:
        return ""
    width = max(map(len, examples)) + 2
    return "\n".join(
        [HEADING, *(f"  {typed:<{width}}{does}".rstrip() for typed, does in examples.items())]
    )
