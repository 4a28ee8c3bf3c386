"""The whole report: one page with everything it needs inside, and nothing that can run."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from datetime import datetime
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Final

from engine.analysis.figures import Analysis
from engine.analysis.findings import listed, plural
from engine.cli.html_report.differences import comparisons, people
from engine.cli.html_report.leaderboard import heat_map, leaderboard
from engine.cli.html_report.markup import Markup, Piece, element, joined
from engine.cli.html_report.parts import Frame
from engine.cli.html_report.summary import agreement, how_made, in_short
from engine.scripted import is_script

GENERATOR: Final = "Crosswind results"
"""Says in the page that we wrote it, so that it may be written anew."""

_PARTS: Final = (in_short, leaderboard, heat_map, comparisons, people, agreement, how_made)

_METHOD: Final = (
    "Every rate has a Wilson interval on the effective number of rows: rows of one base scenario "
    "(its demographic variants and samples) resemble each other, so n is divided by the design "
    "effect that follows from their intra-class correlation; where the base scenarios themselves "
    "vary more than that, their spread is taken instead. Metrics are strata, and the quantile is "
    "Student's t, since few scenarios leave the variance itself unsure.",
    "Targets are compared on the scenarios that both were judged on: the mean difference with an "
    "interval over base scenarios within their metric, by Student's t; where each base scenario "
    "has a single row, p is that of McNemar's exact test. Demographic gaps are taken within the "
    "base scenario in the same way. Where several differences are tested, p values are adjusted by "
    "Holm's method, so that the chance of calling even one of them real without cause stays below "
    "5 %; the intervals beside them are not adjusted.",
    "Conversations without a verdict are counted and said; they are in no rate. Intervals speak "
    "of chance in the choice of scenarios and in the answers. They do not speak of whether the "
    "metrics are the right ones, nor of errors that the judge makes again and again.",
)


def html_report(analyses: Sequence[Analysis], made: datetime) -> str:
    """One self-contained file about one benchmark or several."""
    title = analyses[0].title if len(analyses) == 1 else "Results"
    return "<!doctype html>\n" + element(
        "html", _head(title), "\n", _body(analyses, title, made), lang="en", dir="ltr"
    )


@cache
def _style() -> Markup:
    return Markup(files("engine.cli.html_report").joinpath("style.css").read_text("utf-8"))


def _head(title: str) -> Markup:
    digest = b64encode(sha256(_style().encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    return element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="referrer", content="no-referrer"),
        element("meta", name="generator", content=GENERATOR),
        element("title", f"{title} · Crosswind"),
        element("style", _style()),
    )


def _body(analyses: Sequence[Analysis], title: str, made: datetime) -> Markup:
    several = len(analyses) > 1
    return element(
        "body",
        element("header", _masthead(analyses, title, made), class_="masthead"),
        "\n",
        element(
            "main",
            [_benchmark(one, place, several=several) for place, one in enumerate(analyses, 1)],
            _method(),
        ),
        "\n",
        element("footer", "Made by Crosswind. This page asks nothing of the network."),
    )


def _masthead(analyses: Sequence[Analysis], title: str, made: datetime) -> list[Piece]:
    targets = list(dict.fromkeys(one.target for found in analyses for one in found.targets))
    scored = sum(one.scored for found in analyses for one in found.targets)
    scripted = sorted({model for found in analyses for model in found.scripted_models})
    lead = (
        f"{plural(len(targets), 'target')} in {plural(scored, 'scored conversation')}, "
        f"{made:%d %B %Y, %H:%M} UTC"
    )
    names = [found.benchmark for found in analyses]
    return [
        element("p", "Crosswind", class_="mark"),
        element("h1", title, class_="name"),
        element("p", lead, class_="lead"),
        element("p", _scripted(scripted, analyses), class_="notice", role="note")
        if scripted
        else None,
        element(
            "nav",
            element("ul", [_link(name, n) for n, name in enumerate(names, 1)]),
            aria_label="Benchmarks",
        )
        if len(names) > 1
        else None,
    ]


def _scripted(models: Sequence[str], analyses: Sequence[Analysis]) -> str:
    known = f"Scripted models took part: {listed(models)}. They are not language models"
    targets = [one.model for found in analyses for one in found.targets]
    if all(map(is_script, targets)):
        return (
            f"{known}: these numbers show how Crosswind works, and say nothing about any assistant."
        )
    real = sorted({model for model in targets if not is_script(model)})
    no = "is no script" if len(real) == 1 else "are no scripts"
    return f"{known}. {listed(real)} {no}; what is said here of any assistant rests on these."


def _link(name: str, place: int) -> Markup:
    return element("li", element("a", name, href=f"#b{place}"))


def _benchmark(analysis: Analysis, place: int, *, several: bool) -> Markup:
    frame = Frame(level=3 if several else 2, prefix=f"b{place}")
    head = None
    if several:
        head = element(
            "header",
            element("h2", analysis.title, class_="name"),
            element("p", analysis.benchmark, class_="lead name"),
        )
    parts = [part(analysis, frame) for part in _PARTS]
    return element("article", head, parts, id=f"b{place}", class_="benchmark")


def _method() -> Markup:
    return element(
        "section",
        element("h2", "Method", id="method"),
        joined([element("p", paragraph) for paragraph in _METHOD]),
        class_="part method",
        aria_labelledby="method",
    )
