"""What each command takes."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from math import inf
from pathlib import Path
from typing import Any, Final

from engine.benchmark import Stage
from engine.branches import STANCE
from engine.cli.cluster_arguments import add_cluster, add_workers

AddCommand = Callable[..., argparse.ArgumentParser]
"""Adds a command: its name, what it does, and what is said below its options."""


def add_shared(shared: argparse.ArgumentParser) -> None:
    """What every command takes."""
    _option(
        shared,
        "--workspace",
        "DIR",
        "the workspace; else the one around the current folder",
        type=Path,
    )
    _flag(shared, "--plain", "plain lines: no colours, no bars, no app")
    _flag(shared, "--slow", "draw the app seldom, for thin lines")
    _flag(shared, "--no-mouse", "leave the mouse to the terminal, in the app")


def _flag(command: argparse._ActionsContainer, name: str, text: str) -> None:
    command.add_argument(name, action="store_true", help=text)


def _option(
    command: argparse._ActionsContainer, name: str, metavar: str, text: str, **more: Any
) -> None:
    command.add_argument(name, metavar=metavar, help=text, **more)


def _several(command: argparse._ActionsContainer, name: str, metavar: str, text: str) -> None:
    """An option that may be repeated; without it there is an empty list."""
    _option(command, name, metavar, text, action="append", default=[])


def _benchmarks(command: argparse._ActionsContainer) -> None:
    command.add_argument("benchmarks", metavar="BENCHMARK", nargs="*", help="default: all")


def _json(command: argparse._ActionsContainer) -> None:
    _flag(command, "--json", "for a script")


def _yes(command: argparse._ActionsContainer) -> None:
    _flag(command, "--yes", "do not ask before spending money")


def _whose_id(command: argparse._ActionsContainer) -> None:
    _option(command, "--benchmark", "NAME", "where several have this id")


def _demo(command: AddCommand) -> None:
    demo = command(
        "demo",
        "run sample benchmarks on scripted models, without any key, and watch",
        "The models of the demo are scripts that play their parts. They are not language models.",
    )
    _option(demo, "--dir", "DIR", "where to put the workspace (default: ./demo)", type=Path)
    _headless(demo)


def _init(command: AddCommand) -> None:
    init = command("init", "make a workspace: a folder with a commented config.yaml")
    init.add_argument(
        "dir", type=Path, metavar="DIR", nargs="?", default=Path(), help="default: here"
    )


def _new(command: AddCommand) -> None:
    new = command("new", "add a benchmark with a commented benchmark.yaml")
    new.add_argument("name", metavar="NAME")


def _run(command: AddCommand) -> None:
    run = command(
        "run",
        "do what is missing: write metrics and scenarios, talk, judge, aggregate",
        "Stages: " + ", ".join(Stage) + ".\n"
        "Ctrl-C once finishes what is being spoken, twice stops now; the next run goes on there.",
    )
    _benchmarks(run)
    _several(run, "--stage", "STAGE", "only this one; may be repeated")
    _option(run, "--until", "STAGE", "stop when this stage is over, and say what to look at")
    _several(run, "--target", "ID", "only this one; may be repeated")
    _flag(run, "--anew", "begin anew where the store is missing, though files hold what was run")
    _option(run, "--config", "FILE", "instead of config.yaml", type=Path)
    _flag(run, "--stale", "also redo what is out of date")
    _flag(run, "--force", "do everything again")
    _flag(run, "--dry-run", "count calls, ask no model anything")
    _flag(run, "--explain", "name the rows to do, and why")
    _several(
        run,
        "--fail-under",
        "TRACK=RATE",
        "exit with 1 where a target's pass rate is surely lower, with 5 where that is open",
    )
    _yes(run)
    add_workers(run)
    _headless(run)
    _flag(run, "--json", "the result, or the plan, as JSON")


def _engine_at_work(command: AddCommand) -> None:
    command("watch", "open the app on the engine at work; anybody may, as often as they like")
    status = command("status", "how far everything is, and what the engine is doing")
    _json(status)
    command("pause", "let the engine begin nothing new, after what is being spoken")
    command("resume", "let it go on")
    stop = command(
        "stop",
        "let the engine finish what is being spoken, then end",
        "What is stored stays, and `crosswind run` goes on from there.",
    )
    _flag(stop, "--now", "cut off what is being spoken")
    _flag(stop, "--wait", "come back when it has ended")
    retry = command("retry", "do once more what failed: all of it, one target's, or some ids")
    retry.add_argument("ids", metavar="ID", nargs="*", help="default: all that failed")
    _option(retry, "--target", "ID", "only this one's; it is called again")
    _option(retry, "--benchmark", "NAME", "where several have an id")
    _flag(retry, "--json", "the result as JSON")
    _spending(retry)


def _show(command: AddCommand) -> None:
    show = command(
        "show",
        "a metric, scenario or conversation by its id: set-up, transcript, verdicts",
        "Any unique beginning of an id works: `crosswind show m01_s002`.",
    )
    show.add_argument("id", metavar="ID")
    _whose_id(show)
    _json(show)


def _once_more(command: AddCommand) -> None:
    evaluate = command("evaluate", "judge these transcripts again, beside the old verdicts")
    evaluate.add_argument("ids", metavar="ID", nargs="+")
    _option(evaluate, "--evaluator", "NAME", "a name in `models:` of config.yaml")
    _whose_id(evaluate)
    _json(evaluate)

    simulate = command("simulate", "play these conversations again, as a new take, and judge it")
    simulate.add_argument("ids", metavar="ID", nargs="*")
    _flag(
        simulate,
        "--invalid",
        "those in which the user model did not do its part; of the ids, or of all",
    )
    _whose_id(simulate)
    _json(simulate)
    for again in (evaluate, simulate):
        _spending(again)


def _results(command: AddCommand) -> None:
    results = command(
        "results",
        "pass rates for each target, with their intervals, and what is sure about them",
        "On a terminal of 120 columns or more, --details is on.",
    )
    results.add_argument("benchmarks", metavar="BENCHMARK", nargs="*")
    shapes = results.add_mutually_exclusive_group()
    _flag(shapes, "--json", "what results.json holds")
    _flag(shapes, "--csv", "one line for each target and metric")
    _flag(
        shapes, "--methods", "what was done and how it was counted, with the formulas, to be quoted"
    )
    shapes.add_argument(
        "--html",
        nargs="?",
        const="",
        metavar="FILE",
        help="a page for a browser, with everything in one file (default: results.html)",
    )
    _flag(results, "--details", "also metrics, pairs, people and agreement")
    _flag(
        results,
        "--overall",
        "the targets over all of these benchmarks together, each benchmark weighing the same",
    )
    _flag(
        results,
        "--exploratory",
        "mark by the false discovery rate: more marks, of which on average 5%% may be false",
    )
    _flag(
        results,
        "--fresh",
        "count only what is up to date: no take and no verdict that `run --stale` would redo",
    )
    _gates(results)


def _gates(results: argparse.ArgumentParser) -> None:
    _several(
        results,
        "--fail-under",
        "TRACK=RATE",
        "exit with 1 where a pass rate is surely lower, with 5 where that is open",
    )
    _several(results, "--target", "ID", "hold only this one to --fail-under; may be repeated")


def _site(command: AddCommand) -> None:
    site = command(
        "site",
        "results and every transcript behind them as pages for any browser, without a server",
        "A folder that can be opened from a disk, sent, or put on any web host. It holds what was\n"
        "said, thought and judged, and no key. A site that is there is replaced; files of others\n"
        "are left alone.",
    )
    _benchmarks(site)
    site.add_argument(
        "--out", type=Path, metavar="DIR", required=True, help="a new folder, or an earlier site"
    )


def _validate(command: AddCommand) -> None:
    validate = command(
        "validate",
        "play or judge a benchmark with another model in one role: does the ranking hold?",
        "A branch of the benchmark is made in benchmarks/NAME/validation/; the original stays as "
        "it is.\nA run that was stopped is continued by the same command. What a swap changes is "
        "told beside\nwhat a replay changes, by the same model once more. The order of the targets "
        "is said to hold\nonly within `validation.equivalence_points` of config.yaml, as it was "
        "when the run began.",
    )
    validate.add_argument("benchmark", metavar="BENCHMARK")
    what = validate.add_mutually_exclusive_group()
    roles = ["generator", "user", "evaluator"]
    what.add_argument(
        "--swap",
        choices=[*roles, STANCE],
        help="which role another model takes; `stance`: the same user model without the hidden "
        "goal, metric and landmarks (needs no --with)",
    )
    what.add_argument("--replay", choices=roles, help="which role the same model takes once more")
    _option(
        validate, "--with", "NAME", "by whom: a name in `models:` or a target's id", dest="model"
    )
    _flag(validate, "--stale", "also redo what is out of date")
    _flag(validate, "--dry-run", "count calls, ask no model")
    _yes(validate)
    _flag(validate, "--report", "show what was found, run nothing")
    _flag(validate, "--json", "the report, or the plan, as JSON")
    _flag(validate, "--headless", "as it always runs: progress on stderr")


def _lint(command: AddCommand) -> None:
    lint = command(
        "lint",
        "hold metrics and scenarios against plain rules: what cannot be judged or played as meant",
        "Asks no model, but with --with, which says first what that costs. The rules are in\n"
        "docs/benchmark.md. `lint_ignore` in benchmark.yaml silences one for an id, with a reason.",
    )
    _benchmarks(lint)
    _flag(lint, "--strict", "exit with 1 where anything is found")
    _option(
        lint,
        "--with",
        "NAME",
        "have this model read them, too: a name in `models:` or a target's id",
        dest="model",
    )
    _yes(lint)
    _json(lint)


def dollars(text: str) -> float:
    """Raises ValueError, of which argparse makes an error that names the option."""
    amount = float(text.removeprefix("$"))
    if not 0 < amount < inf:
        raise ValueError
    return amount


def _pilot(command: AddCommand) -> None:
    pilot = command(
        "pilot",
        "play a few conversations of every metric, and say what should not be paid for",
        "Metrics that tell no target from another, landmarks that are not delivered, judges that "
        "cannot\ntell, early ends, the cost of a conversation and of the whole. What is played is "
        "kept and counts.",
    )
    _benchmarks(pilot)
    _option(
        pilot,
        "--scenarios",
        "N",
        "of each metric, each in one variant, once with every target; 2",
        type=int,
        default=2,
    )
    _option(
        pilot,
        "--budget",
        "USD",
        "it stops before it has cost more; 1.00",
        type=dollars,
        default=1.0,
    )
    _yes(pilot)
    _flag(pilot, "--headless", "as it always runs: progress on stderr")
    _flag(pilot, "--json", "what was found, for a script")


def _review(command: AddCommand) -> None:
    review = command(
        "review",
        "approve, reject or take back what a model wrote: metrics, base scenarios, variants",
        "Without an option, lists what waits for a person, with what `crosswind lint` says of it. "
        "With\n`review: required` in config.yaml, no conversation is played before. An ID that "
        "ends with\na * stands for all that begin so.",
    )
    review.add_argument("benchmark", metavar="BENCHMARK", nargs="?", help="default: the only one")
    what = review.add_mutually_exclusive_group()
    _flag(what, "--list", "what waits; the default")
    what.add_argument("--approve", metavar="ID", nargs="+", help="have it played and counted")
    what.add_argument(
        "--reject", metavar="ID", nargs="+", help="have it neither played nor counted"
    )
    _option(what, "--generate", "ID", "have a model write it again, see --note")
    _flag(what, "--undo", "take back what you did last")
    _option(review, "--reason", "TEXT", "of a rejection: why")
    _option(review, "--note", "TEXT", "what the model is to write otherwise")
    _option(review, "--by", "NAME", "who you are; else CROSSWIND_PERSON or your account's name")
    _yes(review)
    _flag(review, "--json", "every row and how it stands")


def _label(command: AddCommand) -> None:
    label = command(
        "label",
        "say yourself, blind, whether the behaviour is there, for a sample of conversations",
        "In a terminal one after the other, with keys; or as a CSV. "
        "You see what the evaluator sees: a\ntranscript and a definition, and a number instead of "
        "the id.\nThe sample is drawn over verdicts, metrics and targets; with the same seed, "
        "others draw the\nsame one. `crosswind calibrate` says what comes of it.",
    )
    label.add_argument("benchmark", metavar="BENCHMARK")
    _option(label, "--sample", "N", "how many conversations; 60", type=int)
    _option(label, "--seed", "WORD", "of the draw; 7")
    _option(
        label,
        "--by",
        "NAME",
        "whose labels; else CROSSWIND_PERSON or your account's name",
    )
    _flag(label, "--new", "draw another sample once this one is labelled")
    _option(label, "--export", "FILE", "write what is open as a CSV", dest="write", type=Path)
    _option(label, "--import", "FILE", "take in a CSV that is filled in", dest="read", type=Path)
    _flag(label, "--json", "how far it is, for a script")


def _adjudicate(command: AddCommand) -> None:
    adjudicate = command(
        "adjudicate",
        "decide where people who labelled the same conversation disagree",
        "Without a number: in a terminal side by side, to decide with keys; else lists them with "
        "what\neach said, and nothing that tells which conversations they are.",
    )
    adjudicate.add_argument("benchmark", metavar="BENCHMARK")
    adjudicate.add_argument("id", metavar="NUMBER", nargs="?", help="as it is listed")
    decision = adjudicate.add_mutually_exclusive_group()
    decision.add_argument(
        "--present", dest="decide", action="store_const", const=True, help="the behaviour is there"
    )
    decision.add_argument(
        "--absent", dest="decide", action="store_const", const=False, help="it is not"
    )
    _option(adjudicate, "--reason", "TEXT", "why")
    _option(adjudicate, "--by", "NAME", "who decides; else CROSSWIND_PERSON or your account's name")
    _flag(adjudicate, "--json", "the list, for a script")


def _calibrate(command: AddCommand) -> None:
    calibrate = command(
        "calibrate",
        "how far a judge can be trusted, by what people labelled",
        "Sensitivity, specificity, agreement, and pass rates corrected for the judge's errors, "
        "beside\nthe raw ones. Weighted by how the sample was drawn, clustered by base scenario.",
    )
    calibrate.add_argument("benchmark", metavar="BENCHMARK")
    _option(calibrate, "--judge", "NAME", "one judge, as verdicts name it")
    calibrate.add_argument(
        "--compare", nargs=2, metavar=("A", "B"), help="two judges on the same labels"
    )
    _option(
        calibrate,
        "--width",
        "SHARE",
        "of an interval: how many labels would give it; 0.1",
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
        help="a page for a browser, with everything in one file (default: calibration.html)",
    )


def _search(command: AddCommand) -> None:
    search = command("search", "find words in every transcript")
    search.add_argument("text", metavar="TEXT", nargs="+")
    search.add_argument("--by", choices=["user", "target"], help="only what this side said")
    _option(search, "--benchmark", "NAME", "only in this one")
    _option(search, "--limit", "N", "at most so many (20)", type=int, default=20)
    _json(search)


def _doctor(command: AddCommand) -> None:
    doctor = command(
        "doctor",
        "look at configuration, keys, models, network, terminal and store; change nothing",
        "Exit codes: 0 no problem · 2 the configuration, a key or a model's set-up is wrong · "
        "1 something\nelse is: a server, the store. Notes (·) are no problems. No key is shown.",
    )
    _flag(
        doctor, "--call", "also ask each model once in its role, as a run will; costs a few words"
    )
    _json(doctor)


def _keys(command: AddCommand) -> None:
    keys = command(
        "keys",
        "list every key of the app, what it does and its action, with keys of your own",
        "keys.yaml in ~/.config/crosswind (or $XDG_CONFIG_HOME/crosswind) gives actions\n"
        "more keys, a line each: `pause: F2` or `star: [F3, Ctrl+B]`. The built-in ones stay.\n"
        "Exit codes: 0 it is as it should be · 2 it is faulty; each fault is told with its line.",
    )
    _json(keys)


def _themes(command: AddCommand) -> None:
    command(
        "themes",
        "list the themes of the app, with those of your own and what is hard to read in them",
        "themes.yaml in ~/.config/crosswind (or $XDG_CONFIG_HOME/crosswind) holds themes of\n"
        "your own: a name, `base: dark` or `base: light`, and colours such as `accent:\n"
        '"#5fafaf"`. `T` and `:theme NAME` in the app choose one.',
    )


def _mirror(command: AddCommand) -> None:
    mirror = command("mirror", "write the files under benchmarks/ from the store")
    mirror.add_argument("benchmarks", metavar="BENCHMARK", nargs="*")
    edited = mirror.add_mutually_exclusive_group()
    _flag(edited, "--diff", "show what differs in files that a person edited")
    _flag(edited, "--keep", "leave edited files so, and say no more of it")
    _flag(edited, "--overwrite", "write edited files anew; the edits are lost")


def _prune(command: AddCommand) -> None:
    prune = command(
        "prune",
        "take replaced takes and old notes out of the store, after asking",
        "A take is replaced when a newer one of the same conversation was played to its end and "
        "judged.\nWhat was spent stays. Notes and runs go only with --older-than.",
    )
    _option(prune, "--older-than", "DAYS", "only what began before so many days", type=int)
    _flag(prune, "--dry-run", "say what would go, change nothing")
    _flag(prune, "--yes", "do not ask")


def _import(command: AddCommand) -> None:
    take_in = command(
        "import",
        "take files into the store: a workspace of ImpactBench or Crosswind, or logs of Inspect",
        "DIR is a workspace, a benchmark, published transcripts, or a folder of .eval files.\n"
        "LOG is a log of Inspect (.eval or .json), and so of Petri or Bloom: its task becomes a\n"
        "benchmark, each score of a sample a metric and a verdict, the model under test a target.\n"
        "Give the logs of a task together: a later import takes theirs for newer takes.\n"
        "Each benchmark comes in whole or not at all; what is there already is not taken twice.\n"
        "Keys and headers in old files are left out. Exit codes: 0 all is in · 1 some rows or\n"
        "files could not be taken, all else is in · 2 nothing was done.",
    )
    take_in.add_argument(
        "place", type=Path, metavar="DIR|LOG", nargs="+", help="one folder, or any number of logs"
    )
    _several(take_in, "--benchmark", "NAME", "only this one; may be repeated")
    _several(take_in, "--metric", "NAME", "of logs: only the scores of this name; may be repeated")
    _option(
        take_in,
        "--present-from",
        "N",
        "of logs: a score of N or more says that the behaviour is present (default: from the\n"
        "middle of its scale on, which is 6 of 10 and 0.5 of 1)",
        type=float,
    )
    _flag(take_in, "--dry-run", "read everything, write nothing")
    _flag(take_in, "--json", "the report for a script")


def _export(command: AddCommand) -> None:
    export = command(
        "export",
        "write conversations and verdicts to files of other formats",
        "FORMAT: jsonl (one object a line), csv (one line for each verdict, safe to open in a\n"
        "spreadsheet), md (a folder with one document for each conversation), inspect and\n"
        "inspect-json (a folder with one log of Inspect for each benchmark and target).",
    )
    export.add_argument("names", metavar="BENCHMARK|ID", nargs="*", help="default: all")
    export.add_argument(
        "--format",
        choices=["jsonl", "csv", "md", "inspect", "inspect-json"],
        default="jsonl",
        help="default: jsonl",
    )
    _option(export, "--out", "FILE|DIR", "default: standard output", type=Path)
    _flag(export, "--force", "replace what is there")


def _datasette_metadata(command: AddCommand) -> None:
    command(
        "datasette-metadata",
        "print titles, descriptions, units and queries for the store in Datasette, as YAML",
        "crosswind datasette-metadata > metadata.yaml\n"
        "datasette crosswind.db --metadata metadata.yaml",
    )


def _repair(command: AddCommand) -> None:
    repair = command(
        "repair",
        "put a damaged store right, from what can be read of it and the files under benchmarks/",
        "The damaged store is kept beside the new one. A store that is whole is left alone.\n"
        "Exit codes: 0 nothing is missing · 1 something is; what was played or judged, "
        "`crosswind run` does again.",
    )
    _flag(repair, "--yes", "do not ask")
    _flag(repair, "--json", "what was done, for a script")


COMMANDS: Final[Sequence[Callable[[AddCommand], None]]] = (
    _demo,
    _init,
    _new,
    _run,
    _engine_at_work,
    _show,
    _once_more,
    _results,
    _site,
    _validate,
    _lint,
    _review,
    _pilot,
    _label,
    _adjudicate,
    _calibrate,
    _search,
    _doctor,
    _keys,
    _themes,
    _mirror,
    _prune,
    _import,
    _export,
    _datasette_metadata,
    _repair,
    add_cluster,
)
"""In the order in which --help lists them."""


def _spending(command: argparse.ArgumentParser) -> None:
    _detach(command)
    _yes(command)


def _headless(command: argparse.ArgumentParser) -> None:
    where = command.add_mutually_exclusive_group()
    _flag(where, "--headless", "no app: progress on stderr, the result on stdout")
    _detach(where)


def _detach(command: argparse._ActionsContainer) -> None:
    _flag(command, "--detach", "come back at once; the engine goes on by itself")
