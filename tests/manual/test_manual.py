"""The manual: nothing is left out, what it shows is so, and no link leads nowhere."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path, PurePosixPath
from typing import Any, Final
from urllib.parse import unquote, urldefrag, urlsplit

import pytest
import yaml
from jsonschema import Draft202012Validator
from pydantic import BaseModel

import crosswind
from engine.cli.command_line import build_parser, commands_of
from engine.config.benchmark_file import BenchmarkShape, load_definition
from engine.config.schema import Config, ModelSpec, Target, load_config
from engine.config.schemas import SCHEMAS
from engine.config.templates import init_workspace, new_benchmark, starter_names
from engine.config.workspace import Workspace
from engine.errors import InputError
from tests.approval import approve, lines_with
from tests.manual import impactbench
from tools.manual.__main__ import build
from tools.manual.commands import command_reference
from tools.manual.configuration import (
    benchmark_reference,
    config_reference,
    meanings,
    sections,
)
from tools.manual.keys import keys_reference
from tools.manual.notebook import NOTEBOOK, PAGE, executed
from tools.manual.pages import BUILT, DOCS, PARTS, SETTINGS, committed, filled, in_both_themes
from tools.manual.sessions import followed, worked_pages
from tools.manual.store import store_reference
from tools.schemas import MADE, schema_texts
from tui.bindings import bindings_of, key_name
from tui.own_keys import bound_classes

ROOT: Final = DOCS.parent
PAGES: Final = sorted(page for page in DOCS.rglob("*.md") if page.parent not in PARTS)
ARCHITECTURE: Final = ROOT / "ARCHITECTURE.md"
RECORDS: Final = sorted(page for folder in PARTS for page in folder.glob("*.md"))
"""Of decisions and simulations; the manual has those of each on one page."""
READ_AS_FILES: Final = [
    *(ROOT / "README.md", ROOT / "CONTRIBUTING.md", ARCHITECTURE),
    *(*PAGES, *RECORDS),
]
TOPS: Final = ("crosswind", "docs", "engine", "tests", "tools", "tui")
_FENCE: Final = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
_LINK: Final = re.compile(r"\]\(([^)\s]+)\)")
_YAML: Final = re.compile(r"^```yaml\n(.*?)^```", re.DOTALL | re.MULTILINE)


def page_name(page: Path) -> str:
    return str(page.relative_to(ROOT))


# The built site


class Addresses(HTMLParser):
    """What a page loads, what it links to, and where in it one can be led."""

    def __init__(self) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.links: list[str] = []
        self.places: set[str] = {""}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            match tag, name:
                case _, "id":
                    self.places.add(value or "")
                case "a", "href":
                    self.links.append(value or "")
                case _, "src" | "href":
                    self.loads.append(value or "")
                case _:
                    pass


@cache
def addresses(page: Path) -> Addresses:
    found = Addresses()
    found.feed(page.read_text("utf-8"))
    return found


def dead(page: Path, link: str) -> bool:
    path, place = urldefrag(link)
    target = (page.parent / unquote(path)).resolve() if path else page
    if not target.is_file():
        return True
    return target.suffix == ".html" and unquote(place) not in addresses(target).places


@pytest.mark.process
def test_it_is_built_strictly_with_no_dead_link_and_asks_no_other_server(tmp_path: Path) -> None:
    assert build(tmp_path) == 0
    site = tmp_path / "site"
    pages = [page for page in site.rglob("*.html") if page.name != "404.html"]
    assert len(pages) == len(PAGES)
    for page in pages:
        assert "<!-- built" not in page.read_text("utf-8")
        found = addresses(page)
        assert [one for one in found.loads if urlsplit(one).netloc] == [], page
        own = [one for one in (*found.loads, *found.links) if not urlsplit(one).scheme]
        assert [one for one in own if dead(page, one)] == [], page
    for picture in (*site.rglob("*.svg"), *site.rglob("*.css")):
        assert re.findall(r"url\([\"']?https?:[^)]*\)", picture.read_text("utf-8")) == [], picture


def test_a_picture_is_light_or_dark_as_the_page_is() -> None:
    shown = in_both_themes("![Live](pictures/live.svg) and ![a demo](pictures/demo.svg)")
    live = "![Live](pictures/live.svg#only-dark) ![Live](pictures/live-light.svg#only-light)"
    assert shown == f"{live} and ![a demo](pictures/demo.svg)"


@pytest.mark.exhaustive
def test_every_file_that_the_architecture_names_is_there() -> None:
    """A name may leave out the folders above it; those of a workspace are not ours."""
    files = [path.relative_to(ROOT).as_posix() for top in TOPS for path in (ROOT / top).rglob("*")]
    named = re.findall(r"`([\w./*-]+(?:\.\w+|/))`", ARCHITECTURE.read_text("utf-8"))
    assert len(named) > 50
    wrong = [
        name
        for name in named
        if not name.startswith("crosswind.")
        and not any(PurePosixPath(f"/{file}").match(f"*/{name}") for file in ["crosswind", *files])
    ]
    assert not wrong


def test_every_page_stands_in_its_table_of_contents() -> None:
    listed = re.findall(r'= "([\w/-]+\.md)"', SETTINGS.read_text("utf-8"))
    assert sorted(listed) == [str(page.relative_to(DOCS)) for page in PAGES]


def test_read_as_a_file_a_page_leads_only_to_files_that_are_there() -> None:
    wrong = [
        (page_name(page), link)
        for page in READ_AS_FILES
        for link in _LINK.findall(_FENCE.sub("", page.read_text("utf-8")))
        if not urlsplit(link).scheme and not (page.parent / urldefrag(link).url).exists()
    ]
    assert wrong == []


def test_what_a_page_as_a_file_holds_of_the_program_is_up_to_date() -> None:
    """`python -m tools.manual --write` brings it up to date."""
    texts = {page_name(page): page.read_text("utf-8") for page in PAGES}
    assert [name for name, text in texts.items() if text != committed(text)] == []


def test_what_is_made_from_the_program_stands_in_one_page_each() -> None:
    text = "".join(page.read_text("utf-8") for page in PAGES)
    assert sorted(re.findall(r"<!-- built: (\w+) -->", text)) == sorted(BUILT)
    with pytest.raises(KeyError):
        filled("<!-- built: nothing -->\n<!-- /built -->")


# What is made from the program


def test_every_command_and_all_that_it_takes_has_its_place() -> None:
    told = command_reference()
    parser = build_parser()
    for name, command in {"": parser, **commands_of(parser)}.items():
        anchor = f"{{#{name.replace(' ', '-')}}}"
        part = told.partition(anchor)[2].partition("\n## ")[0] if name else told
        assert "[--plain]" not in part, name
        for action in command._actions:
            shared = {"--help", "--workspace", "--plain", "--slow", "--no-mouse"}
            for option in set(action.option_strings) - shared - {"-h"}:
                assert f"`{option}" in part, (name, option)
            if not action.option_strings and isinstance(action.metavar, str) and name:
                assert action.metavar in part, (name, action.metavar)


def test_help_is_as_wide_as_before_when_the_commands_were_told() -> None:
    help_before = [command.format_help() for command in commands_of(build_parser()).values()]
    command_reference()
    assert [one.format_help() for one in commands_of(build_parser()).values()] == help_before


def shapes() -> Iterator[type[BaseModel]]:
    yield Config
    yield BenchmarkShape
    yield Target
    for root in (Config, BenchmarkShape, ModelSpec):
        yield from (shape for _, shape in sections(root))


def test_every_key_of_the_configuration_has_its_place_and_says_what_it_is_for() -> None:
    told = config_reference() + benchmark_reference()
    for shape in shapes():
        said = meanings(shape)
        for name, field in shape.model_fields.items():
            row = f"`{name}`"
            assert row in told
            assert said.get(name), f"{shape.__name__}.{name} has no sentence below it"
            assert field.description, f"{shape.__name__}.{name} does not say what it may be"


def test_the_judge_is_not_called_required_without_its_alternative() -> None:
    [row] = [line for line in config_reference().splitlines() if "[`evaluator_model`]" in line]
    assert "**required**, or `evaluators`" in row


def test_every_key_of_the_app_has_its_place() -> None:
    told = keys_reference()
    for kind in bound_classes():
        for binding in bindings_of(kind):
            named = f"`{key_name(binding.key)}`".replace("|", "\\|")  # in a cell of a table
            meaning = binding.tooltip or binding.description
            lines = [line for line in told.splitlines() if named in line and meaning in line]
            assert lines, (kind, binding)


def test_every_table_of_the_store_and_every_column_has_its_place() -> None:
    told = store_reference()
    for part in told.split("### ")[1:]:
        heading, said, *_ = part.split("\n\n")
        assert said, f"{heading} has no sentence above it"
    for column in ("landmark", "served_by", "user_faults", "marks"):
        assert f"| `{column}` |" in told
    approve(lines_with(told, "when it last"))


# What it shows


@pytest.mark.exhaustive
@pytest.mark.parametrize("page", worked_pages(), ids=page_name)
def test_a_worked_page_shows_what_its_commands_print(page: Path, tmp_path: Path) -> None:
    text = page.read_text("utf-8")
    assert followed(text, tmp_path) == text, (
        "what it shows is not what is printed now; look at the difference, then take it with "
        "`python -m tools.manual.sessions --write`"
    )
    if page.name == "coming-from.md":
        rates = crosswind.open(tmp_path / "study").results()
        counted = {(r.target, r.metric): (r.passed, r.scored) for r in rates if r.metric}
        assert counted == impactbench.RATES
    if page == PAGE:
        shown = NOTEBOOK.read_text("utf-8")
        assert executed(shown, tmp_path / "study") == shown


def faults_by_schema(name: str, document: object) -> list[str]:
    """What an editor would mark in a file."""
    schema = json.loads((SCHEMAS / name).read_text("utf-8"))
    Draft202012Validator.check_schema(schema)
    return [fault.message for fault in Draft202012Validator(schema).iter_errors(document)]


def test_the_schemas_for_editors_are_those_of_today() -> None:
    """`python -m tools.schemas --write` brings them up to date."""
    assert {name: (SCHEMAS / name).read_text("utf-8") for name in MADE} == schema_texts()


@pytest.mark.exhaustive
def test_the_files_that_init_and_new_write_name_schemas_that_take_them(tmp_path: Path) -> None:
    init_workspace(tmp_path)
    for name in starter_names():
        new_benchmark(Workspace(tmp_path), name, name)
    new_benchmark(Workspace(tmp_path), "own")
    paths = [tmp_path / "config.yaml", *tmp_path.rglob("benchmark.yaml")]
    assert len(paths) == 2 + len(starter_names())
    for path in paths:
        text = path.read_text("utf-8")
        named = text.splitlines()[0].removeprefix("# yaml-language-server: $schema=")
        schema = (path.parent / named).resolve(strict=True)
        assert faults_by_schema(schema.name, yaml.safe_load(text)) == []
        assert faults_by_schema(schema.name, {"nmae": 1})
    for path in tmp_path.rglob("*/scenarios.json"):
        if path.parent.name != ".schemas":
            assert faults_by_schema("scenarios.json", json.loads(path.read_text("utf-8"))) == []
    assert faults_by_schema("scenarios.json", [{"id": "m01_s001"}])


def check_shown(block: str, folder: Path) -> None:
    """Has a part of a file that a page shows read, beside what it needs to be a whole one."""
    shown = yaml.safe_load(block)
    if isinstance(shown, dict) and set(shown) <= set(BenchmarkShape.model_fields):
        path = folder / "benchmark.yaml"
        whole_benchmark = {"name": "A title", "description": "What it is about."} | shown
        path.write_text(yaml.safe_dump(whole_benchmark), "utf-8")
        assert faults_by_schema("benchmark.json", whole_benchmark) == []
        load_definition(path)
        return
    offline = {"model": "user", "source": "offline"}
    target = {"id": "one", "model": "one", "source": "mine", "base_url": "http://127.0.0.1:1/v1"}
    whole: dict[str, Any] = {
        "user_model": offline,
        "evaluator_model": {"model": "evaluator", "source": "offline"},
        "targets": [target],
    }
    if isinstance(shown, list):
        whole["targets"] = shown
    elif set(shown) <= set(ModelSpec.model_fields):
        whole["targets"] = [target | shown]
    else:
        whole |= shown
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(whole), "utf-8")
    load_config(path)
    assert faults_by_schema("config.json", whole) == []


@pytest.mark.exhaustive
def test_each_configuration_that_is_shown_is_taken(tmp_path: Path) -> None:
    for page in (ROOT / "README.md", *PAGES):
        for block in _YAML.findall(page.read_text("utf-8")):
            try:
                check_shown(block, tmp_path)
            except (InputError, AssertionError) as error:
                raise AssertionError(f"{page_name(page)}: {block}") from error


# Commands


def test_exit_codes_are_those_that_help_tells() -> None:
    rows = (DOCS / "server.md").read_text("utf-8").partition("## Exit codes")[2]
    listed = re.findall(r"^\| (\d) \| (.*) \|$", rows, re.MULTILINE)
    told = " ".join((build_parser().epilog or "").split()).partition(" first steps")[0]
    plain = [f"{code} {meaning}".replace("`", "") for code, meaning in listed]
    assert told == "exit codes: " + " ".join(plain)


# Messages


def messages() -> list[str]:
    """What troubleshooting explains, and what the results say when they are not to be trusted."""
    text = (DOCS / "troubleshooting.md").read_text("utf-8")
    results = (DOCS / "results.md").read_text("utf-8").partition("## When not to trust")[2]
    seen = re.findall(r"^\| `([^`]* [^`]*)`", results.partition("\n## ")[0], re.MULTILINE)
    numbered = [re.sub(r"\d+(?: base scenarios)?", "…", message) for message in seen]
    return [*re.findall(r"^### `(.*)`$", text, re.MULTILINE), *numbered]


def texts_of_the_program() -> list[str]:
    """Every text in its source, with `…` for what is put in when it is printed."""
    return [
        text
        for room in ("engine", "tui")
        for path in (ROOT / room).rglob("*.py")
        for text in _texts(ast.walk(ast.parse(path.read_bytes())))
    ]


def _texts(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        match node:
            case ast.Constant(value=str(text)):
                yield text
            case ast.JoinedStr(values=parts):
                yield "".join(
                    str(part.value) if isinstance(part, ast.Constant) else "…" for part in parts
                )
            case _:
                pass


@pytest.mark.exhaustive
def test_every_message_that_is_quoted_stands_in_the_program() -> None:
    texts = texts_of_the_program()
    assert [one for one in messages() if not any(map(quoted(one).search, texts))] == []


def quoted(message: str) -> re.Pattern[str]:
    pieces = [re.escape(piece.strip()) for piece in message.split("…") if piece.strip()]
    return re.compile(".*".join(pieces), re.DOTALL)
