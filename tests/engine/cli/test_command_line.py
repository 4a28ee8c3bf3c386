"""A slip of the finger is met with the word that was meant."""

from __future__ import annotations

import re
import shlex
from importlib import import_module
from pathlib import Path

import pytest

from engine.cli.command_line import build_parser, commands_of, parse
from engine.cli.commands import COMMANDS
from engine.cli.main import INTERRUPTED, guarded
from engine.errors import InputError
from tests.approval import approve
from tests.engine.commands import command, crosswind


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["rnu"], "did you mean `crosswind run`?"),
        (["xyzzy"], "see `crosswind --help`"),
        (["run", "--headles"], "did you mean --headless?"),
        (["show"], "missing: ID"),
        (["search", "x", "--limit", "many"], "--limit many: expected a whole number"),
        (["run", "--budget", "0"], "--budget 0: expected US dollars above 0"),
        (["results", "--json", "--methods"], "not allowed with"),
        (["--wrokspace", "x"], "did you mean --workspace?"),
        (["export", "md", "--dir", "x"], "see `crosswind export --help`"),
        (["results", "--html"], "did you mean `crosswind export html`?"),
        (["cluster"], "did you mean `crosswind run --workers N`?"),
    ],
)
def test_a_wrong_word_gets_the_nearest_right_one(words: list[str], said: str) -> None:
    with pytest.raises(InputError) as caught:
        parse(words)
    assert said in str(caught.value)


def test_every_command_is_in_the_table_and_in_the_help() -> None:
    assert command("--version", code=0).out.startswith("crosswind ")
    assert command("version", code=0) == command("--version", code=0)
    text = build_parser().format_help()
    for name, kind in COMMANDS.items():
        module, function = kind.runs.split(".")
        assert f"  {name}" in text
        assert callable(getattr(import_module(f"engine.cli.{module}"), function))


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_command_explains_itself(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        parse([command, "--help"])
    assert left.value.code == 0
    said = capsys.readouterr().out
    assert len(said.splitlines()) > 5
    with pytest.raises(SystemExit):
        parse(["help", command])
    assert capsys.readouterr().out == said


@pytest.mark.parametrize("words", [[], *([command] for command in sorted(COMMANDS))])
def test_help_fits_80_columns_and_tells_what_holds_for_every_command_below_the_rest(
    words: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        parse([*words, "--help"])
    told = capsys.readouterr().out
    assert [line for line in told.splitlines() if len(line) > 80] == []
    usage, _, below = told.partition("\n\n")
    assert "--plain" not in usage
    assert "--plain" in below


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_each_example_is_a_command_line_and_fits_in_one_line_of_the_help(
    command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    told = commands_of(build_parser())[command].format_help().splitlines()
    for typed, does in COMMANDS[command].examples.items():
        assert any(line.startswith(f"  {typed}") and line.endswith(does) for line in told), typed
        program, *words = shlex.split(typed.partition(" > ")[0])
        if program == "crosswind":
            assert isinstance(parse(words), COMMANDS[command])


@pytest.mark.parametrize(
    ("typed", "hint"),
    [
        ("retry", "(did you mean `crosswind run`?)"),
        ("lint", "(did you mean `crosswind run --dry-run --strict`?)"),
        ("pilot", "(did you mean `crosswind run --pilot`?)"),
        ("statsu", "(did you mean `crosswind status`?)"),
        ("qqqq", "(see `crosswind --help`)"),
    ],
)
def test_an_unknown_command_names_the_nearest_and_an_earlier_one_what_it_is_now(
    typed: str, hint: str
) -> None:
    with pytest.raises(InputError) as raised:
        parse([typed])
    approve(str(raised.value))


def test_commands_without_an_example_take_nothing_to_show_one_of() -> None:
    without = {name for name, kind in COMMANDS.items() if not kind.examples}
    assert without == {"pause", "resume", "watch"}


def test_help_lists_each_command_once_below_what_one_is_about() -> None:
    parser = build_parser()
    told = parser.format_help()
    for name in COMMANDS:
        assert len(re.findall(rf"^  {name} ", told, re.MULTILINE)) == 1, name
    assert told.index("\nread results:") < told.index("\n  results ") < told.index("\n  label ")


def test_help_of_label_tells_the_sample_that_is_drawn() -> None:
    told = " ".join(commands_of(build_parser())["label"].format_help().split())
    approve(told)


def test_an_error_is_told_and_nothing_is_made(tmp_path: Path) -> None:
    told = crosswind(tmp_path / "nowhere", "run", code=2)
    assert told.out == ""
    assert "crosswind:" in told.err
    assert "Traceback" not in told.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("interrupt", "said"),
    [
        (KeyboardInterrupt(), "crosswind: stopped by Ctrl-C; what was stored is kept\n"),
        (KeyboardInterrupt("the engine goes on"), "crosswind: the engine goes on\n"),
    ],
)
def test_an_interrupt_is_never_silent(
    interrupt: KeyboardInterrupt, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def command() -> int:
        raise interrupt

    assert guarded(command) == INTERRUPTED
    assert capsys.readouterr().err == said


def test_no_command_needs_the_name_of_a_benchmark() -> None:
    needing = {
        (name, action.dest)
        for name, parser in commands_of(build_parser()).items()
        for action in parser._actions
        if "BENCHMARK" in str(action.metavar or action.dest).upper()
        and not action.option_strings
        and action.nargs not in {"?", "*"}
    }
    assert needing == set()
