"""The page with the results: whole, without help from elsewhere, and deaf to what names say."""

from __future__ import annotations

import re
from base64 import b64encode
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from hashlib import sha256
from html.parser import HTMLParser
from itertools import pairwise
from typing import Final

import pytest
from jinja2 import UndefinedError

from engine.analysis.figures import Analysis, MetricInfo, Outcome
from engine.benchmark import Track
from engine.report.html.page import Evidence, environment, heads_turn, html_report
from tests.approval import approve, sentences_with
from tests.engine.stages.verdicts import METRICS, analysed, mixed, outcomes

MADE: Final = datetime(2026, 3, 1, 12, tzinfo=UTC)
EMPTY: Final = {"meta", "br", "line", "circle", "link", "input"}
HOSTILE: Final = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</title></style></svg><iframe src=https://example.org>",
    "javascript:alert(1)",
    "&lt;b&gt; {{7*7}} ${x}",
    "a\x00b\x1b[31mc\u202edcba\u2066",
    "' onmouseover='alert(1)",
)


class Page(HTMLParser):
    """A page as a browser takes it apart."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.faults: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        self.faults += [f"<{tag}> is never closed" for tag in self.open]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if len(dict(attrs)) != len(attrs):
            self.faults.append(f"<{tag}> has an attribute twice")
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.faults.append(f"</{tag}> closes what is not open")

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.words.append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


@cache
def rich() -> Analysis:
    found: list[Outcome] = []
    for metric, shift in zip(METRICS, (0, 5), strict=True):
        pictures = {
            f"t{n}": mixed(share, turn=shift)
            for n, share in enumerate((0.95, 0.9, 0.6, 0.5, 0.45, 0.3, 0.2, 0.1))
        }
        found += outcomes(pictures, metric=metric, samples=2)
    return analysed(found, scripted=["offline:t0"])


@cache
def hostile(text: str) -> Analysis:
    metric = MetricInfo(text, text, Track.POSITIVE)
    found = [
        replace(
            one,
            metric_id=text,
            demographic={text: text if place % 2 else f"{text}2"},
            key=replace(one.key, target_id=f"{one.key.target_id}{text}"),
            unscored=None if one.unscored is None else text,
        )
        for place, one in enumerate(outcomes({"a": mixed(0.9) + "?", "b": mixed(0.2)}))
    ]
    analysis = analysed(found, metrics=[metric], scripted=[text])
    return replace(analysis, title=text, benchmark=text, notes=[text], headline_rule=text)


@pytest.fixture(scope="module")
def page() -> Page:
    return Page(html_report([rich()], MADE))


def test_a_page_is_whole_fetches_nothing_and_runs_nothing(page: Page) -> None:
    assert page.faults == []
    forbidden = {"script", "iframe", "object", "embed", "form", "base", "link", "img"}
    assert not forbidden & {tag for tag, _ in page.tags}
    assert not [name for _, attributes in page.tags for name in attributes if name[:2] == "on"]
    assert not [attributes for _, attributes in page.tags if "style" in attributes]
    text = html_report([rich(), rich()], MADE)
    for outside in ("http://", "https://", "@import", "url("):
        assert outside not in text
    assert [one["href"] for one in Page(text).all("a")] == ["#b1", "#b2"]
    [style] = re.findall("<style>(.*?)</style>", text, re.DOTALL)
    digest = b64encode(sha256(style.encode()).digest()).decode()
    [policy] = [
        one["content"]
        for one in page.all("meta")
        if one.get("http-equiv") == "Content-Security-Policy"
    ]
    assert policy is not None
    assert policy.startswith(f"default-src 'none'; style-src 'sha256-{digest}'")
    assert "@media screen and (prefers-color-scheme:" in text  # paper is never dark
    assert text.count("prefers-color-scheme: dark") == 1
    assert "@media print" in text


def test_a_hostile_name_stays_a_name_and_a_quote_a_quote() -> None:
    text = html_report([hostile(name) for name in HOSTILE], MADE)
    found, harmless = Page(text), Page(html_report([hostile("plain")] * len(HOSTILE), MADE))
    assert found.faults == []
    assert [tag for tag, _ in found.tags] == [tag for tag, _ in harmless.tags]
    assert [sorted(one) for _, one in found.tags] == [sorted(one) for _, one in harmless.tags]
    # what steers a terminal or turns text around is made visible
    assert not re.search("[\x00-\x08\x0b-\x1f\u202a-\u202e\u2066-\u2069]", text)
    said = [evidence("".join(HOSTILE)), evidence("plain")]
    pages = [Page(html_report([rich()], MADE, {"giving-in": one})) for one in said]
    assert pages[0].faults == []
    assert [tag for tag, _ in pages[0].tags] == [tag for tag, _ in pages[1].tags]


def evidence(text: str) -> list[Evidence]:
    quotes = [(text, 2), (text, 3)]
    return [
        Evidence(f"{metric}_s001_v01__t7 {text}", "t7", metric, text, text, text, quotes)
        for metric in ("m01", "m01", "m02")
    ]


def test_a_cell_leads_to_what_the_evaluator_quoted() -> None:
    page = Page(html_report([rich()], MADE, {"giving-in": evidence("I would not know.")}))
    assert page.faults == []
    assert {one["href"] for one in page.all("a")} == {"#b1-e0", "#b1-e2"}
    labels = [one["id"] for _, one in page.tags if "id" in one]
    assert {"b1-e0", "b1-e2"} <= set(labels)
    assert len(labels) == len(set(labels))
    assert page.text.count("not know. turn 2") == 3
    failed = {
        metric.id: sum(
            one.metrics[metric.id].scored - one.metrics[metric.id].passed
            for one in rich().targets
            if metric.id in one.metrics
        )
        for metric in rich().metrics
    }
    assert f"2 of {failed['m01']} failed conversations." in page.text
    assert f"1 of {failed['m02']} failed conversations." in page.text


def test_a_page_of_very_many_pairs_says_how_many_it_leaves_out() -> None:
    analysis = analysed(outcomes({f"t{n}": mixed(n / 17, 4, 2) for n in range(17)}))
    page = Page(html_report([analysis], MADE))
    assert page.faults == []
    assert "12 more pairs, left out here" in page.text


def test_a_figure_that_a_template_asks_for_in_vain_makes_no_page() -> None:
    template = environment().from_string("{{ view.rate_of_passing }}")
    with pytest.raises(UndefinedError, match="rate_of_passing"):
        template.render(view=rich())


def test_a_reader_without_eyes_is_told_the_same(page: Page) -> None:
    assert page.all("html")[0]["lang"] == "en"
    assert len(page.all("h1")) == 1
    assert all(one.get("scope") in {"col", "row"} for one in page.all("th"))
    for plot in page.all("svg"):
        assert plot.get("aria-label") or plot.get("aria-hidden") == "true"
    labels = {one["id"] for _, one in page.tags if "id" in one}
    named = {one["aria-labelledby"] for _, one in page.tags if "aria-labelledby" in one}
    assert named <= labels
    levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch("h[1-6]", tag)]
    assert all(after - before <= 1 for before, after in pairwise(levels))
    scrolling = [given for _, given in page.tags if "scroll" in (given.get("class") or "").split()]
    assert scrolling
    assert all(given.get("tabindex") == "0" and given.get("aria-label") for given in scrolling)


def test_ids_are_unique_however_many_benchmarks_there_are() -> None:
    page = Page(html_report([rich(), rich(), rich()], MADE))
    labels = [one["id"] for _, one in page.tags if "id" in one]
    assert len(labels) == len(set(labels))
    sections = [str(one.get("aria-labelledby", "")) for one in page.all("section")]
    assert {label for names in sections for label in names.split()} <= set(labels)
    assert sum(names.split()[1:] == ["b1-name"] for names in sections) > 2  # told apart by name


def test_the_page_says_what_is_sure_and_who_played(page: Page) -> None:
    approve(
        sentences_with(
            page.text,
            "of 28 differences significant",
            "procedure with stated",
            "Scripted models took",
        )
    )
    assert "carry any false ✓, among " in page.text
    assert "01 March 2026, 12:00 UTC" in page.text
    for heading in ("In short", "Leaderboard", "Metric by target", "Pairs of targets"):
        assert heading in page.text
    assert "4 more pairs" in page.text


def test_no_data_makes_a_page_too() -> None:
    page = Page(html_report([analysed([], targets=["holds"])], MADE))
    assert page.faults == []
    approve(page.text)


def _luminance(colour: str) -> float:
    """Relative luminance of `#rrggbb` (WCAG 2.2)."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_small_figures_can_be_read_on_every_colour_of_a_cell() -> None:
    style = environment().get_template("style.css").render()
    colours = [dict(re.findall(r"--([\w-]+): (#\w{6})", part)) for part in style.split(":root {")]
    schemes = [one for one in colours if "on-heat" in one]
    assert len(schemes) == 2
    for scheme in schemes:
        for step in range(11):
            both = _luminance(scheme["on-heat"]), _luminance(scheme[f"h{step}"])
            assert (max(both) + 0.05) / (min(both) + 0.05) >= 4.5, step
    assert "opacity" not in style  # it would take from the contrast


def test_names_of_targets_turn_before_they_break_within_words() -> None:
    for names, turn in (
        ([f"model-{number:02}" for number in range(14)], False),
        ([f"deepseekreasoner-{number:02}" for number in range(14)], True),
        (["deepseekreasoner", "claude-opus-4-thinking-high"], False),
        (["x" * 200, "short"], True),
    ):
        assert heads_turn(names) is turn
