"""A site: whole, without help from elsewhere, deaf to what it publishes; others' files stay."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from shutil import copytree
from typing import Any, Final
from urllib.parse import parse_qs

import pytest

from engine.analysis.figures import Outcome
from engine.benchmark import Landmark, Speaker, Track
from engine.config.benchmark_file import load_definition
from engine.config.schema import load_config
from engine.jury import Jury
from engine.pipeline.results import counted_of
from engine.report.html.page import evidence_of
from engine.report.site.build import MANIFEST
from engine.report.site.transcripts import with_marked_passages
from engine.store.database import open_store
from tests.approval import approve, sentences_with
from tests.engine.cli.test_html_report import HOSTILE, Page
from tests.engine.commands import Said, crosswind
from tests.engine.small_workspace import BENCHMARK, CONFIG, Place, small_workspace
from tests.engine.store.building import key, play, scenario, scenario_row, verdict, write

MORE_HOSTILE: Final = (
    *HOSTILE,
    "</script><script>alert(1)</script>",
    "a\u2028b\u2029c",
    "\u202eright to left \u0627\u0644\u0639\u0631\u0628\u064a\u0629",
    "x" * 200,
    "👩‍👩‍👧 🏳️‍🌈",
    "]]><!--",
)
"""What models, files and people may write."""
POLICY: Final = "Content-Security-Policy"
_FORBIDDEN: Final = r"https?://|fetch\(|XMLHttp|innerHTML|outerHTML|eval\(|document\.write"
_STEERS: Final = "[\x00-\x08\x0b-\x1f\u2028\u2029\u202a-\u202e]"


def publish(root: Path, out: Path, *names: str, code: int = 0) -> Said:
    return crosswind(root, "export", "site", *names, "--out", str(out), code=code)


def data_of(script: Path) -> Any:
    """What a piece of data holds."""
    found = re.fullmatch(r"crosswind\((.*)\);\n", script.read_text("ascii"), re.DOTALL)
    assert found is not None
    return json.loads(found[1])


@dataclass(frozen=True)
class Site:
    """What is in the folder of one benchmark's pages."""

    root: Path
    benchmark: str = "giving-in"

    @property
    def folder(self) -> Path:
        return self.root / "b" / self.benchmark

    @property
    def data(self) -> Path:
        [found] = self.folder.glob("data-*")
        return found

    @property
    def index(self) -> dict[str, Any]:
        found: dict[str, Any] = data_of(self.data / "index.js")
        return found

    def talks(self) -> dict[str, dict[str, Any]]:
        """Every conversation, by its id."""
        count = self.index["transcripts"]
        found = [one for n in range(1, count + 1) for one in data_of(self.data / f"t{n}.js")]
        return {one["conv_id"]: one for one in found}

    def ids(self) -> list[str]:
        """As the pages' script puts them together, in the order of the index."""
        names, targets = [one[0] for one in self.index["scenarios"]], self.index["targets"]
        return [
            f"{names[row[0]]}__{targets[row[1]]}" + (f"__s{row[2]}" if row[2] else "")
            for row in self.index["rows"]
        ]

    def page(self, name: str = "index.html") -> Page:
        return Page((self.folder / name).read_text("utf-8"))

    def pages(self) -> list[Path]:
        return sorted(self.root.rglob("*.html"))


OTHER_JUDGE: Final = """\
models:
  strict: {model: evaluator-strict, source: offline, params: {pace: instant}}
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A benchmark that was run, and judged by another."""
    found = small_workspace(tmp_path_factory.mktemp("study") / "workspace")
    found.config.write_text(CONFIG + OTHER_JUDGE, "utf-8")
    found.run()
    swap = ["--swap", "evaluator", "--with", "strict", "--yes", "--plain"]
    crosswind(found.root, "validate", "giving-in", *swap, code=0)
    return found


@pytest.fixture(scope="module")
def site(place: Place) -> Site:
    out = place.root.parent / "site"
    publish(place.root, out)
    return Site(out)


# What is on the pages


def test_every_page_is_whole_asks_nobody_else_and_leads_only_to_what_is_there(site: Site) -> None:
    assert len(site.pages()) >= 8
    for path in site.pages():
        page = Page(path.read_text("utf-8"))
        assert page.faults == [], path
        assert len(page.all("h1")) == 1
        for tag, attributes in page.tags:
            for name in ("href", "src"):
                target = attributes.get(name)
                if target and target != "data:,":
                    file, _, anchor = target.partition("#")
                    assert not file or (path.parent / file).is_file(), (path, tag, target)
                    assert file or anchor in {"main", ""}, (path, target)
            assert not [name for name in attributes if name == "style" or name.startswith("on")]
        [policy] = [one["content"] for one in page.all("meta") if one.get("http-equiv") == POLICY]
        assert policy is not None
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert not page.all("style")
        assert all(one.get("src") for one in page.all("script"))
    for path in site.root.rglob("*"):
        if path.suffix in {".html", ".css"}:
            text = path.read_text("utf-8")
            assert not re.search(r"https?://|//[a-z]|@import|url\(", text), path
    assert not re.search(_FORBIDDEN, (site.root / "site.js").read_text("utf-8"))


def test_tables_and_findings_are_there_without_a_script(site: Site) -> None:
    for name, words in {
        "index.html": ("What is measured", "In short", "Leaderboard", "holds", "wavers"),
        "metrics.html": ("Metric by target", "Leaves the decision"),
        "comparisons.html": ("Pairs of targets",),
        "people.html": ("Demographic groups", "younger", "older", "Leaves the decision"),
        "validation.html": ("in place of", "all targets", "Kendall's tau-b", "What this shows"),
    }.items():
        page = site.page(name)
        assert not page.all("script")
        assert all(word in page.text for word in words), name
    approve(sentences_with(site.page("index.html").text, "A hollow dot"))
    assert "A hollow dot" in Page((site.root / "index.html").read_text("utf-8")).text
    transcripts = site.page("transcripts.html")
    assert transcripts.all("noscript")
    approve(sentences_with(transcripts.text, "All tables and"))


def test_behind_every_number_is_every_transcript_that_it_was_counted_from(
    place: Place, site: Site
) -> None:
    with place.reader() as reader:
        found = counted_of(load_definition(place.benchmark), load_config(place.config), reader)
    index, counts = site.index, Counter[tuple[str, str, int]]()
    metrics = [one.id for one in load_definition(place.benchmark).metrics]
    for row in index["rows"]:
        counts[index["targets"][row[1]], metrics[index["scenarios"][row[0]][1]], row[3]] += 1
    for one in found.analysis.targets:
        for metric, cell in one.metrics.items():
            assert counts[one.target, metric, 1] == cell.passed
            assert counts[one.target, metric, 1] + counts[one.target, metric, 0] == cell.scored
    assert sorted(site.ids()) == sorted(str(outcome.key) for outcome in found.outcomes)
    talks = site.talks()
    assert list(talks) == site.ids()
    passed = {str(outcome.key): outcome.passed for outcome in found.outcomes}
    assert {name: one["passed"] for name, one in talks.items()} == passed


def test_a_figure_leads_to_its_conversations(site: Site) -> None:
    links = [one["href"] or "" for one in site.page("metrics.html").all("a")]
    wanted = [parse_qs(link.partition("#")[2]) for link in links if "target=" in link]
    assert {"target": ["holds"], "metric": ["m02"]} in wanted
    assert len(wanted) == 4
    first = Page((site.root / "index.html").read_text("utf-8"))
    links = [one["href"] or "" for one in first.all("a")]
    assert "b/giving-in/transcripts.html#target=holds&type=positive" in links


def test_a_transcript_holds_all_that_was_said_thought_and_judged(place: Place, site: Site) -> None:
    talks = site.talks()
    with place.reader() as reader:
        for take in reader.counting_takes("giving-in"):
            told = talks[str(take.key)]
            messages = reader.messages(take.seq)
            for said, message in zip(told["transcript"], messages, strict=True):
                content = said["content"]
                assert (content if isinstance(content, str) else "".join(content)) == message.text
                if message.speaker is Speaker.USER:
                    assert said["thought"] == message.thought
            given = [(one["judge"], one["passed"], one["counts"]) for one in told["verdicts"]]
            verdict, other = reader.verdicts(take.seq)
            assert given == [
                (verdict.judge, verdict.passed, True),
                (other.judge, other.passed, False),
            ]
            found = [quote for quote in verdict.quotes if quote.turn]
            evidence = [s for s in told["transcript"] if not isinstance(s["content"], str)]
            assert bool(evidence) == bool(found)
    assert any(not isinstance(s["content"], str) for t in talks.values() for s in t["transcript"])


def test_evidence_is_every_second_part() -> None:
    text = "one two three four"
    for passages, parts in (
        ([], text),
        (["not there at all"], text),
        (["two three"], ["one ", "two three", " four"]),
        (["two three", "three four"], ["one ", "two three four", ""]),
        (["one two", "three four"], ["", "one two", " ", "three four", ""]),
        (["two three four", "three four"], ["one ", "two three four", ""]),
    ):
        assert with_marked_passages(text, passages) == parts


# Who publishes what


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    """A workspace whose benchmark was never run."""
    return small_workspace(tmp_path / "workspace").root


def fill(root: Path, text: str, *, benchmark: str = BENCHMARK) -> None:
    """Three conversations in which everything that is free to say is said in these words."""
    place = Place(root)
    place.benchmark.write_text(benchmark, "utf-8")
    made = scenario(
        persona=text,
        user_goal=text,
        latent_adversarial_goal=text,
        landmarks=(Landmark(1, text),),
        demographic={text: text},
        target_system_prompt=text,
    )
    with open_store(root / "crosswind.db") as store:
        [seq] = write(store, scenario_row(made, source="file"))
        said = (text, text)
        for number in (0, 1):
            take = play(store, key(target="holds"), number, messages=said, scenario_seq=seq)
            write(store, verdict(take, number == 0, judge=text, justification=text))
        take = play(store, key(target="wavers"), messages=said, scenario_seq=seq)
        write(store, verdict(take, True, judge=text, justification=text))
        write(store, verdict(take, None, judge="another"))


@pytest.fixture(scope="module")
def harmless(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages of the same in plain words."""
    folder = tmp_path_factory.mktemp("harmless")
    root = small_workspace(folder / "workspace").root
    fill(root, "plain words")
    publish(root, folder / "site")
    return folder / "site"


@pytest.mark.parametrize("text", MORE_HOSTILE)
def test_whatever_was_said_stays_words(
    empty: Path, harmless: Path, tmp_path: Path, text: str
) -> None:
    names = json.dumps(text, ensure_ascii=max(text) < "\U00010000")  # which is YAML as well
    hostile = BENCHMARK.replace("Giving in ", f"{names} ").replace("Avoid flattery", names)
    fill(empty, text, benchmark=hostile)
    publish(empty, tmp_path / "site")
    site = Site(tmp_path / "site")
    for path in site.pages():
        page = Page(path.read_text("utf-8"))
        other = Page((harmless / path.relative_to(site.root)).read_text("utf-8"))
        assert page.faults == []
        assert [tag for tag, _ in page.tags] == [tag for tag, _ in other.tags]
        assert not re.search(_STEERS, path.read_text("utf-8"))
    for script in site.data.iterdir():
        assert "<" not in script.read_text("ascii")
        assert data_of(script)


def test_takes_and_verdicts_that_count_no_more_are_there_and_said_to_be(
    empty: Path, tmp_path: Path
) -> None:
    fill(empty, "plain words")
    publish(empty, tmp_path / "site")
    site = Site(tmp_path / "site")
    talk = site.talks()["m01_s001_v01__holds"]
    assert (talk["take"], talk["passed"]) == (2, False)
    [earlier] = talk["earlier_takes"]
    assert (earlier["take"], earlier["passed"]) == (1, True)
    other = site.talks()["m01_s001_v01__wavers"]
    assert [(one["judge"], one["counts"]) for one in other["verdicts"]] == [
        ("plain words", True),
        ("another", False),
    ]
    replayed = {name: row[4] for name, row in zip(site.ids(), site.index["rows"], strict=True)}
    assert replayed == {"m01_s001_v01__holds": 4, "m01_s001_v01__wavers": 0}


def test_keys_and_paths_of_this_machine_are_published_nowhere(
    empty: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret, path = "sk-0123456789abcdef<'>", "/home/me/models/mine.gguf"
    monkeypatch.setenv("MY_KEY", secret)
    monkeypatch.setenv("MY_HEADER", "password-of-mine")
    config = CONFIG.replace(
        "  - {id: holds, model: steadfast, source: offline, params: {pace: instant}}",
        f"  - {{id: holds, model: {path}, source: openai, apikey: '${{MY_KEY}}',"
        " extra_headers: {X-Who: '${MY_HEADER}'}, base_url: 'http://127.0.0.1:9/v1'}",
    )
    (empty / "config.yaml").write_text(config, "utf-8")
    fill(empty, f"it echoes {secret} and password-of-mine and {path}")
    publish(empty, tmp_path / "site")
    texts = [one.read_text("utf-8") for one in (tmp_path / "site").rglob("*") if one.is_file()]
    assert not [text for text in texts if "0123456789abcdef" in text or "password-of-mine" in text]
    assert not [text for text in texts if "/home/me" in text or str(empty) in text]
    assert any("[hidden]" in text for text in texts)
    assert any("mine.gguf" in text for text in texts)


def test_evidence_is_of_different_base_scenarios_first() -> None:
    failed = [
        key(f"m01_s00{base}_v0{variant}", sample=sample)
        for base in (1, 2)
        for variant in (1, 2)
        for sample in (0, 1)
    ]
    judged: Any = {one: (None, [verdict(1, passed=False)]) for one in failed}
    outcomes = [Outcome(one, "m01", Track.POSITIVE, {}, False, None) for one in failed]
    found = [one.conv_id for one in evidence_of(outcomes, judged, Jury(("judge-x",)))]
    assert found == [str(failed[place]) for place in (0, 4, 1)]


def test_little_evidence_is_of_every_metric_and_of_different_targets() -> None:
    metrics, targets = ["m01", "m02", "m03"], ["a", "b", "c"]
    failed = {
        key(f"{metric}_s00{base}_v01", target): metric
        for metric in metrics
        for target in targets
        for base in (1, 2)
    }
    judged: Any = {one: (None, [verdict(1, passed=False)]) for one in failed}
    outcomes = [
        Outcome(one, metric, Track.POSITIVE, {}, False, None) for one, metric in failed.items()
    ]

    def cells(most: int) -> list[tuple[str, str]]:
        found = evidence_of(outcomes, judged, Jury(("judge-x",)), most)
        return [(one.metric_id, one.target) for one in found]

    assert cells(3) == [("m01", "a"), ("m02", "b"), ("m03", "c")]
    assert sorted(set(cells(9))) == sorted((m, t) for m in metrics for t in targets)
    assert cells(99) == [(m, t) for m in metrics for t in targets for _ in range(2)]


def test_a_page_of_a_benchmark_leads_wherever_the_first_one_does(
    empty: Path, tmp_path: Path
) -> None:
    of_one = empty / "benchmarks" / Site.benchmark
    copytree(of_one, of_one.with_name("another"))
    fill(empty, "hello")
    publish(empty, tmp_path / "site")
    site = Site(tmp_path / "site")
    first, other = (
        [Path(one["href"] or "").name for one in Page(path.read_text("utf-8")).all("a")]
        for path in (site.root / "index.html", site.folder / "index.html")
    )
    assert "differences.html" in first
    assert first[1:5] == other[1:5]


def test_the_one_page_quotes_what_failed_and_holds_no_key(
    empty: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", "sk-0123456789abcdef")
    config = (empty / "config.yaml").read_text("utf-8")
    other = "{id: wavers, model: x, source: openai, apikey: '${MY_KEY}'}"
    (empty / "config.yaml").write_text(re.sub(r"\{id: wavers.*", other, config), "utf-8")
    fill(empty, "it echoes sk-0123456789abcdef")
    path = tmp_path / "results.html"
    crosswind(empty, "export", "html", "--out", str(path), code=0)
    page = Page(path.read_text("utf-8"))
    assert page.faults == []
    for shown in ("m01_s001_v01__holds", "you there? turn 1", "it echoes [hidden]"):
        assert shown in page.text
    assert "0123456789abcdef" not in path.read_text("utf-8")


def test_a_benchmark_without_verdicts_has_pages_and_says_so(empty: Path, tmp_path: Path) -> None:
    open_store(empty / "crosswind.db").close()
    publish(empty, tmp_path / "site")
    site = Site(tmp_path / "site")
    approve(site.page().text)
    assert not (site.folder / "transcripts.html").exists()


def test_two_hundred_metrics_and_one_target_make_pages_too(empty: Path, tmp_path: Path) -> None:
    more = "".join(
        f"  - {{id: x{n}, name: Behaviour {n}, type: positive, definition: It is so.}}\n"
        for n in range(200)
    )
    config = (empty / "config.yaml").read_text("utf-8")
    (empty / "config.yaml").write_text(re.sub(r"  - \{id: wavers.*\n", "", config), "utf-8")
    fill(empty, "plain words", benchmark=BENCHMARK + more)
    publish(empty, tmp_path / "site")
    page = Site(tmp_path / "site").page()
    assert page.faults == []
    assert all(f"Behaviour {n} " in page.text for n in range(200))


# Where it goes


def test_an_earlier_site_is_replaced_and_files_of_others_stay(
    place: Place, site: Site, tmp_path: Path
) -> None:
    out = tmp_path / "site"
    copytree(site.root, out)
    (out / "CNAME").write_text("example.org")
    (out / "b" / "giving-in" / "notes.txt").write_text("mine")
    stale = out / "b" / "gone" / "index.html"
    stale.parent.mkdir()
    stale.write_text("old")
    said = json.loads((out / MANIFEST).read_text())
    said["files"].append("b/gone/index.html")
    (out / MANIFEST).write_text(json.dumps(said))
    publish(place.root, out)
    assert (out / "CNAME").read_text() == "example.org"
    assert (out / "b" / "giving-in" / "notes.txt").read_text() == "mine"
    assert not stale.parent.exists()
    listed = json.loads((out / MANIFEST).read_text())["files"]
    assert all((out / name).is_file() for name in listed)
    assert [one.name for one in out.iterdir() if one.name.startswith(".")] == []
    assert Site(out).talks().keys() == site.talks().keys()


def test_a_folder_of_others_is_left_as_it_is(place: Place, tmp_path: Path) -> None:
    (tmp_path / "outside.txt").write_text("mine")
    unlisted = "not the list of files"
    for number, (manifest, problem) in enumerate(
        (
            (None, "holds other files"),
            ("{", unlisted),
            ('{"made_by": "somebody", "files": []}', unlisted),
            ('{"made_by": "crosswind site", "files": ["../outside.txt"]}', unlisted),
            ('{"made_by": "crosswind site", "files": ["/etc/hosts"]}', unlisted),
            ('{"made_by": "crosswind site", "files": ["link/outside.txt"]}', unlisted),
            ('{"made_by": "crosswind site", "files": []}', "Crosswind did not write it"),
        )
    ):
        out = tmp_path / f"site-{number}"
        out.mkdir()
        (out / "index.html").write_text("mine")
        (out / "link").symlink_to(tmp_path)
        if manifest is not None:
            (out / MANIFEST).write_text(manifest)
        before = {one: one.is_file() and one.read_text() for one in sorted(out.iterdir())}
        assert problem in publish(place.root, out, code=2).err
        assert {one: one.is_file() and one.read_text() for one in sorted(out.iterdir())} == before
        assert (tmp_path / "outside.txt").read_text() == "mine"


def test_a_place_within_the_workspace_and_an_unknown_name_are_refused(
    place: Place, tmp_path: Path
) -> None:
    assert "giving-in" in publish(place.root, tmp_path / "site", "giving", code=2).err
    assert not (tmp_path / "site").exists()
    publish(place.root, place.root / "benchmarks" / "site", code=2)
    publish(place.root, place.root, code=2)
    assert "mkdir -p" in publish(place.root, place.root / "none" / "site", code=2).err
