"""The command line: its commands, what they take, and how a slip of the finger is met."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from math import inf
from pathlib import Path
from typing import Any, Final, NoReturn

from engine.benchmark import Stage
from engine.branches import STANCE
from engine.errors import InputError, Problem

_EPILOG: Final = """\
exit codes: 0 done · 1 finished, but rows failed or a --fail-under gate was missed ·
2 usage, configuration or input error · 3 stopped before the end, the next run goes on from
there · 4 another engine holds the workspace · 5 a --fail-under gate is open: the interval
holds the bound

first steps: crosswind demo · crosswind init DIR · crosswind new NAME · crosswind run
"""


class Parser(argparse.ArgumentParser):
    """An argument parser whose faults are ours to word, and that takes no half options."""

    def __init__(self, **options: Any) -> None:
        super().__init__(allow_abbrev=False, **options)

    def error(self, message: str) -> NoReturn:
        raise InputError(Problem(_plain(message), hint=f"see `{self.prog} --help`"))


def _plain(message: str) -> str:
    """argparse speaks of arguments; people think of what they typed."""
    return message.replace("the following arguments are required:", "missing:").replace(
        "argument ", ""
    )


def nearest_word(word: str, known: Iterable[str]) -> str | None:
    found = get_close_matches(word, list(known), n=1, cutoff=0.5)
    return found[0] if found else None


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Raises `InputError`; `--help` and `--version` print and raise `SystemExit`."""
    parser = build_parser()
    commands = commands_of(parser)
    command = _first_word(argv, parser)
    if command is not None:
        _known_command(command, commands)
    arguments, unknown = parser.parse_known_args(argv)
    if unknown:
        asked = commands.get(arguments.command, parser)
        raise InputError([_unknown(word, asked) for word in unknown])
    return arguments


def _first_word(argv: Sequence[str], parser: argparse.ArgumentParser) -> str | None:
    """What stands where the command belongs. An option before it that is not known would make its
    value look like one, so that is said first."""
    words = iter(argv)
    for word in words:
        if not word.startswith("-"):
            return word
        option = parser._option_string_actions.get(word.split("=")[0])  # noqa: SLF001  (no public way)
        if option is None:
            raise InputError(_unknown(word, parser))
        if option.nargs is None and "=" not in word:
            next(words, None)
    return None


def commands_of(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:  # noqa: SLF001  (argparse has no public way to its commands)
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            return dict(action.choices)
    return {}


def _known_command(word: str, commands: Iterable[str]) -> None:
    names = list(commands)
    if word not in names:
        near = nearest_word(word, names)
        hint = f"did you mean `crosswind {near}`?" if near else "see `crosswind --help`"
        raise InputError(Problem(f"there is no command {word!r}", hint=hint))


def _unknown(word: str, parser: argparse.ArgumentParser) -> Problem:
    options = [option for action in parser._actions for option in action.option_strings]  # noqa: SLF001
    near = nearest_word(word.split("=")[0], options) if word.startswith("-") else None
    hint = f"did you mean {near}?" if near else f"see `{parser.prog} --help`"
    what = "option" if word.startswith("-") else "argument"
    return Problem(f"{parser.prog} takes no {what} {word!r}", hint=hint)


AddCommand = Callable[..., argparse.ArgumentParser]
"""Adds a command: its name, what it does, and what is said below its options."""


def build_parser() -> argparse.ArgumentParser:
    shared = _shared()
    parser = Parser(
        prog="crosswind",
        description="Watch how AI assistants behave under conversational pressure. Without a "
        "command, opens the app on the workspace around the current folder.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        parents=[shared],
    )
    parser.add_argument("--version", action="store_true", help="print the version")
    commands = parser.add_subparsers(
        dest="command", metavar="COMMAND", title="commands", parser_class=Parser
    )

    def command(name: str, text: str, epilog: str | None = None) -> argparse.ArgumentParser:
        return commands.add_parser(
            name,
            help=text,
            description=text[0].upper() + text[1:] + ("" if text.endswith("?") else "."),
            epilog=epilog,
            parents=[shared],
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )

    for add in _COMMANDS:
        add(command)
    return parser


def _shared() -> Parser:
    shared = Parser(add_help=False, argument_default=argparse.SUPPRESS)
    shared.add_argument(
        "--workspace",
        type=Path,
        metavar="DIR",
        help="the workspace; else the one around the current folder",
    )
    shared.add_argument(
        "--plain", action="store_true", help="plain lines: no colours, no bars, no app"
    )
    shared.add_argument("--slow", action="store_true", help="draw the app seldom, for thin lines")
    shared.add_argument(
        "--no-mouse", action="store_true", help="leave the mouse to the terminal, in the app"
    )
    return shared


def _demo(command: AddCommand) -> None:
    demo = command(
        "demo",
        "run sample benchmarks on scripted models, without any key, and watch",
        "The models of the demo are scripts that play their parts. They are not language models.",
    )
    demo.add_argument(
        "--dir", type=Path, metavar="DIR", help="where to put the workspace (default: ./demo)"
    )
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
    run.add_argument("benchmarks", metavar="BENCHMARK", nargs="*", help="default: all")
    run.add_argument(
        "--stage",
        metavar="STAGE",
        action="append",
        default=[],
        help="only this one; may be repeated",
    )
    run.add_argument(
        "--until", metavar="STAGE", help="stop when this stage is over, and say what to look at"
    )
    run.add_argument(
        "--target", metavar="ID", action="append", default=[], help="only this one; may be repeated"
    )
    run.add_argument(
        "--anew",
        action="store_true",
        help="begin anew where the store is missing, though files hold what was run",
    )
    run.add_argument("--config", type=Path, metavar="FILE", help="instead of config.yaml")
    run.add_argument("--stale", action="store_true", help="also redo what is out of date")
    run.add_argument("--force", action="store_true", help="do everything again")
    run.add_argument("--dry-run", action="store_true", help="count calls, ask no model anything")
    run.add_argument("--explain", action="store_true", help="name the rows to do, and why")
    run.add_argument(
        "--fail-under",
        metavar="TRACK=RATE",
        action="append",
        default=[],
        help="exit with 1 where a target's pass rate is surely lower, with 5 where that is open",
    )
    run.add_argument("--yes", action="store_true", help="do not ask before spending money")
    _headless(run)
    run.add_argument("--json", action="store_true", help="the result, or the plan, as JSON")


def _engine_at_work(command: AddCommand) -> None:
    command("watch", "open the app on the engine at work; anybody may, as often as they like")
    status = command("status", "how far everything is, and what the engine is doing")
    status.add_argument("--json", action="store_true", help="for a script")
    command("pause", "let the engine begin nothing new, after what is being spoken")
    command("resume", "let it go on")
    stop = command(
        "stop",
        "let the engine finish what is being spoken, then end",
        "What is stored stays, and `crosswind run` goes on from there.",
    )
    stop.add_argument("--now", action="store_true", help="cut off what is being spoken")
    stop.add_argument("--wait", action="store_true", help="come back when it has ended")
    retry = command("retry", "do once more what failed: all of it, one target's, or some ids")
    retry.add_argument("ids", metavar="ID", nargs="*", help="default: all that failed")
    retry.add_argument("--target", metavar="ID", help="only this one's; it is called again")
    retry.add_argument("--benchmark", metavar="NAME", help="where several have an id")
    retry.add_argument("--json", action="store_true", help="the result as JSON")
    _spending(retry)


def _show(command: AddCommand) -> None:
    show = command(
        "show",
        "a metric, scenario or conversation by its id: set-up, transcript, verdicts",
        "Any unique beginning of an id works: `crosswind show m01_s002`.",
    )
    show.add_argument("id", metavar="ID")
    show.add_argument("--benchmark", metavar="NAME", help="where several have this id")
    show.add_argument("--json", action="store_true", help="for a script")


def _once_more(command: AddCommand) -> None:
    evaluate = command("evaluate", "judge these transcripts again, beside the old verdicts")
    evaluate.add_argument("ids", metavar="ID", nargs="+")
    evaluate.add_argument("--evaluator", metavar="NAME", help="a name in `models:` of config.yaml")
    evaluate.add_argument("--benchmark", metavar="NAME", help="where several have this id")
    evaluate.add_argument("--json", action="store_true", help="for a script")

    simulate = command("simulate", "play these conversations again, as a new take, and judge it")
    simulate.add_argument("ids", metavar="ID", nargs="*")
    simulate.add_argument(
        "--invalid",
        action="store_true",
        help="those in which the user model did not do its part; of the ids, or of all",
    )
    simulate.add_argument("--benchmark", metavar="NAME", help="where several have this id")
    simulate.add_argument("--json", action="store_true", help="for a script")
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
    shapes.add_argument("--json", action="store_true", help="what results.json holds")
    shapes.add_argument("--csv", action="store_true", help="one line for each target and metric")
    shapes.add_argument(
        "--methods",
        action="store_true",
        help="what was done and how it was counted, with the formulas, to be quoted",
    )
    shapes.add_argument(
        "--html",
        nargs="?",
        const="",
        metavar="FILE",
        help="a page for a browser, with everything in one file (default: results.html)",
    )
    results.add_argument(
        "--details", action="store_true", help="also metrics, pairs, people and agreement"
    )
    results.add_argument(
        "--overall",
        action="store_true",
        help="the targets over all of these benchmarks together, each benchmark weighing the same",
    )
    results.add_argument(
        "--exploratory",
        action="store_true",
        help="mark by the false discovery rate: more marks, of which on average 5%% may be false",
    )
    results.add_argument(
        "--fresh",
        action="store_true",
        help="count only what is up to date: no take and no verdict that `run --stale` would redo",
    )
    _gates(results)


def _gates(results: argparse.ArgumentParser) -> None:
    results.add_argument(
        "--fail-under",
        metavar="TRACK=RATE",
        action="append",
        default=[],
        help="exit with 1 where a pass rate is surely lower, with 5 where that is open",
    )
    results.add_argument(
        "--target",
        metavar="ID",
        action="append",
        default=[],
        help="hold only this one to --fail-under; may be repeated",
    )


def _site(command: AddCommand) -> None:
    site = command(
        "site",
        "results and every transcript behind them as pages for any browser, without a server",
        "A folder that can be opened from a disk, sent, or put on any web host. It holds what was\n"
        "said, thought and judged, and no key. A site that is there is replaced; files of others\n"
        "are left alone.",
    )
    site.add_argument("benchmarks", metavar="BENCHMARK", nargs="*", help="default: all")
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
    validate.add_argument(
        "--with", dest="model", metavar="NAME", help="by whom: a name in `models:` or a target's id"
    )
    validate.add_argument("--stale", action="store_true", help="also redo what is out of date")
    validate.add_argument("--dry-run", action="store_true", help="count calls, ask no model")
    validate.add_argument("--yes", action="store_true", help="do not ask before spending money")
    validate.add_argument("--report", action="store_true", help="show what was found, run nothing")
    validate.add_argument("--json", action="store_true", help="the report, or the plan, as JSON")
    validate.add_argument(
        "--headless", action="store_true", help="as it always runs: progress on stderr"
    )


def _lint(command: AddCommand) -> None:
    lint = command(
        "lint",
        "hold metrics and scenarios against plain rules: what cannot be judged or played as meant",
        "Asks no model, but with --with, which says first what that costs. The rules are in\n"
        "docs/benchmark.md. `lint_ignore` in benchmark.yaml silences one for an id, with a reason.",
    )
    lint.add_argument("benchmarks", metavar="BENCHMARK", nargs="*", help="default: all")
    lint.add_argument("--strict", action="store_true", help="exit with 1 where anything is found")
    lint.add_argument(
        "--with",
        dest="model",
        metavar="NAME",
        help="have this model read them, too: a name in `models:` or a target's id",
    )
    lint.add_argument("--yes", action="store_true", help="do not ask before spending money")
    lint.add_argument("--json", action="store_true", help="for a script")


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
    pilot.add_argument("benchmarks", metavar="BENCHMARK", nargs="*", help="default: all")
    pilot.add_argument(
        "--scenarios",
        type=int,
        default=2,
        metavar="N",
        help="of each metric, each in one variant, once with every target; 2",
    )
    pilot.add_argument(
        "--budget",
        type=dollars,
        default=1.0,
        metavar="USD",
        help="it stops before it has cost more; 1.00",
    )
    pilot.add_argument("--yes", action="store_true", help="do not ask before spending money")
    pilot.add_argument(
        "--headless", action="store_true", help="as it always runs: progress on stderr"
    )
    pilot.add_argument("--json", action="store_true", help="what was found, for a script")


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
    what.add_argument("--list", action="store_true", help="what waits; the default")
    what.add_argument("--approve", metavar="ID", nargs="+", help="have it played and counted")
    what.add_argument(
        "--reject", metavar="ID", nargs="+", help="have it neither played nor counted"
    )
    what.add_argument("--generate", metavar="ID", help="have a model write it again, see --note")
    what.add_argument("--undo", action="store_true", help="take back what you did last")
    review.add_argument("--reason", metavar="TEXT", help="of a rejection: why")
    review.add_argument("--note", metavar="TEXT", help="what the model is to write otherwise")
    review.add_argument("--by", metavar="NAME", help="who you are; your account's name")
    review.add_argument("--yes", action="store_true", help="do not ask before spending money")
    review.add_argument("--json", action="store_true", help="every row and how it stands")


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
    label.add_argument("--sample", type=int, metavar="N", help="how many conversations; 60")
    label.add_argument("--seed", metavar="WORD", help="of the draw; 7")
    label.add_argument("--by", metavar="NAME", help="whose labels these are; your account's name")
    label.add_argument(
        "--new", action="store_true", help="draw another sample once this one is labelled"
    )
    label.add_argument(
        "--export", dest="write", type=Path, metavar="FILE", help="write what is open as a CSV"
    )
    label.add_argument(
        "--import", dest="read", type=Path, metavar="FILE", help="take in a CSV that is filled in"
    )
    label.add_argument("--json", action="store_true", help="how far it is, for a script")


def _adjudicate(command: AddCommand) -> None:
    adjudicate = command(
        "adjudicate",
        "decide where people who labelled the same conversation disagree",
        "Without an id: in a terminal side by side, to decide with keys; else lists them with what "
        "each said.",
    )
    adjudicate.add_argument("benchmark", metavar="BENCHMARK")
    adjudicate.add_argument("id", metavar="ID", nargs="?", help="a conversation")
    decision = adjudicate.add_mutually_exclusive_group()
    decision.add_argument(
        "--present", dest="decide", action="store_const", const=True, help="the behaviour is there"
    )
    decision.add_argument(
        "--absent", dest="decide", action="store_const", const=False, help="it is not"
    )
    adjudicate.add_argument("--reason", metavar="TEXT", help="why")
    adjudicate.add_argument("--by", metavar="NAME", help="who decides; your account's name")
    adjudicate.add_argument("--json", action="store_true", help="the list, for a script")


def _calibrate(command: AddCommand) -> None:
    calibrate = command(
        "calibrate",
        "how far a judge can be trusted, by what people labelled",
        "Sensitivity, specificity, agreement, and pass rates corrected for the judge's errors, "
        "beside\nthe raw ones. Weighted by how the sample was drawn, clustered by base scenario.",
    )
    calibrate.add_argument("benchmark", metavar="BENCHMARK")
    calibrate.add_argument("--judge", metavar="NAME", help="one judge, as verdicts name it")
    calibrate.add_argument(
        "--compare", nargs=2, metavar=("A", "B"), help="two judges on the same labels"
    )
    calibrate.add_argument(
        "--width",
        type=float,
        default=0.1,
        metavar="SHARE",
        help="of an interval: how many labels would give it; 0.1",
    )
    shapes = calibrate.add_mutually_exclusive_group()
    shapes.add_argument("--json", action="store_true", help="for a script")
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
    search.add_argument("--benchmark", metavar="NAME", help="only in this one")
    search.add_argument("--limit", type=int, default=20, metavar="N", help="at most so many (20)")
    search.add_argument("--json", action="store_true", help="for a script")


def _doctor(command: AddCommand) -> None:
    doctor = command(
        "doctor",
        "look at configuration, keys, models, network, terminal and store; change nothing",
        "Exit codes: 0 no problem · 2 the configuration, a key or a model's set-up is wrong · "
        "1 something\nelse is: a server, the store. Notes (·) are no problems. No key is shown.",
    )
    doctor.add_argument(
        "--call",
        action="store_true",
        help="also ask each model once in its role, as a run will; costs a few words",
    )
    doctor.add_argument("--json", action="store_true", help="for a script")


def _keys(command: AddCommand) -> None:
    keys = command(
        "keys",
        "list every key of the app, what it does and its action, with keys of your own",
        "keys.yaml in ~/.config/crosswind (or $XDG_CONFIG_HOME/crosswind) gives actions\n"
        "more keys, a line each: `pause: F2` or `star: [F3, Ctrl+B]`. The built-in ones stay.\n"
        "Exit codes: 0 it is as it should be · 2 it is faulty; each fault is told with its line.",
    )
    keys.add_argument("--json", action="store_true", help="for a script")


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
    edited.add_argument(
        "--diff", action="store_true", help="show what differs in files that a person edited"
    )
    edited.add_argument(
        "--keep", action="store_true", help="leave edited files so, and say no more of it"
    )
    edited.add_argument(
        "--overwrite", action="store_true", help="write edited files anew; the edits are lost"
    )


def _prune(command: AddCommand) -> None:
    prune = command(
        "prune",
        "take replaced takes and old notes out of the store, after asking",
        "A take is replaced when a newer one of the same conversation was played to its end and "
        "judged.\nWhat was spent stays. Notes and runs go only with --older-than.",
    )
    prune.add_argument(
        "--older-than", type=int, metavar="DAYS", help="only what began before so many days"
    )
    prune.add_argument("--dry-run", action="store_true", help="say what would go, change nothing")
    prune.add_argument("--yes", action="store_true", help="do not ask")


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
    take_in.add_argument(
        "--benchmark",
        metavar="NAME",
        action="append",
        default=[],
        help="only this one; may be repeated",
    )
    take_in.add_argument(
        "--metric",
        metavar="NAME",
        action="append",
        default=[],
        help="of logs: only the scores of this name; may be repeated",
    )
    take_in.add_argument(
        "--present-from",
        type=float,
        metavar="N",
        help="of logs: a score of N or more says that the behaviour is present (default: from the\n"
        "middle of its scale on, which is 6 of 10 and 0.5 of 1)",
    )
    take_in.add_argument("--dry-run", action="store_true", help="read everything, write nothing")
    take_in.add_argument("--json", action="store_true", help="the report for a script")


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
    export.add_argument("--out", type=Path, metavar="FILE|DIR", help="default: standard output")
    export.add_argument("--force", action="store_true", help="replace what is there")


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
        "Exit codes: 0 nothing is missing · 1 something is, and `crosswind run` does it again.",
    )
    repair.add_argument("--yes", action="store_true", help="do not ask")
    repair.add_argument("--json", action="store_true", help="what was done, for a script")


_COMMANDS: Final[Sequence[Callable[[AddCommand], None]]] = (
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
)
"""In the order in which --help lists them."""


def _spending(command: argparse.ArgumentParser) -> None:
    _detach(command)
    command.add_argument("--yes", action="store_true", help="do not ask before spending money")


def _headless(command: argparse.ArgumentParser) -> None:
    where = command.add_mutually_exclusive_group()
    where.add_argument(
        "--headless", action="store_true", help="no app: progress on stderr, the result on stdout"
    )
    _detach(where)


def _detach(command: argparse._ActionsContainer) -> None:
    command.add_argument(
        "--detach", action="store_true", help="come back at once; the engine goes on by itself"
    )


def opens_app(arguments: argparse.Namespace) -> bool:
    """Whether this command is one that a person watches, on a terminal that can show it."""
    return _wants_app(arguments) and not _is_dumb()


def why_no_app(arguments: argparse.Namespace) -> str | None:
    """What to tell a person who would have been shown the app on another terminal."""
    if not (_wants_app(arguments) and _is_dumb()):
        return None
    goes_on = "" if arguments.command is None else "; this goes on here, in lines"
    return (
        "no app here: TERM says that this terminal cannot place text (it is dumb or not set). "
        f"Where it can, `TERM=xterm-256color crosswind` opens it{goes_on}"
    )


def _is_dumb() -> bool:
    return os.environ.get("TERM", "dumb") in {"", "dumb"}


def _wants_app(arguments: argparse.Namespace) -> bool:
    if getattr(arguments, "plain", False) or arguments.version:
        return False
    match arguments.command:
        case None:
            asked = True
        case "watch":
            asked = True
        case "label":
            asked = not (arguments.write or arguments.read or arguments.json)
        case "adjudicate":
            asked = arguments.id is None and not arguments.json
        case "demo":
            asked = not (arguments.headless or arguments.detach)
        case "run":
            asked = not (
                arguments.headless
                or arguments.detach
                or arguments.dry_run
                or arguments.explain
                or arguments.json
            )
        case _:
            asked = False
    terminal = sys.stdin.isatty() and sys.stdout.isatty() and sys.stderr.isatty()
    return asked and terminal
