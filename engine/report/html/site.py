"""The pages of a site: overviews and comparisons, and those that show conversations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib.resources import files
from typing import Any, Final, NamedTuple
from urllib.parse import quote, urlencode

from jinja2 import Environment

from engine.analysis.figures import Analysis
from engine.analysis.overall import overall
from engine.analysis.sections import VerdictScope, sections, values_on
from engine.analysis.validation_figures import ValidationReport
from engine.benchmark import Track
from engine.config.benchmark_file import Definition
from engine.display import clean, plural
from engine.report.html.page import (
    COMPARING,
    MOMENT,
    BenchmarkView,
    environment,
    lead_words,
    scripted_words,
    together_words,
)

_MOST_ROWS: Final = 400
"""The most targets, over all benchmarks, on the first page: each takes some kilobytes."""
FOLDER: Final = "b"
"""The parent of the benchmarks' folders, so that their names cannot clash with a page's."""
_GENERATOR: Final = "Crosswind site"


class PageLink(NamedTuple):
    kind: str
    label: str

    @property
    def href(self) -> str:
        return f"{'index' if self.kind == 'results' else self.kind}.html"


_TRANSCRIPTS: Final = PageLink("transcripts", "Transcripts")


@dataclass(frozen=True, slots=True)
class Page:
    """The values in which pages of one template differ."""

    kind: str
    heading: str
    title: str
    links: Sequence[PageLink]
    """Links to the pages of the whole site."""
    root: str = ""
    """The relative path to the site's root."""
    scripted: bool = False
    """Whether the page needs the script."""


_SITE: Final = (
    PageLink("index", "Crosswind"),
    PageLink("differences", "All benchmarks together"),
    PageLink("search", "Search"),
    PageLink("method", "Method"),
)
"""The pages of the whole site; the second only where there are several benchmarks."""
_OF_SECTIONS: Final = {
    "metrics": "Metrics",
    "comparisons": "Differences",
    "people": "People",
    "agreement": "Agreement",
}
"""Sections with a page of their own; the others are on the page of results."""


def _transcripts(scope: VerdictScope) -> str:
    """A `TranscriptLinks` to the transcripts in the page's own folder."""
    target, against = (*scope.targets, None, None)[:2]
    only = {"split": scope.split, "samples": scope.samples, "stale": scope.stale}
    wanted = {
        "target": target,
        "against": against,
        "metric": scope.metric,
        "type": scope.track,
        "who": f"{scope.axis}={scope.people[0]}" if scope.people else None,
        "outcome": "fail" if scope.failed else None,
        "only": next((name for name, is_so in only.items() if is_so), None),
    }
    # cleaned like the data that the pages filter
    query = {name: clean(value) for name, value in wanted.items() if value}
    return f"{_TRANSCRIPTS.href}#{urlencode(query, quote_via=quote)}"


def _in_its_benchmark(scope: VerdictScope) -> str:
    """A `TranscriptLinks` for an `Overall`; empty for a figure over several benchmarks."""
    return f"{folder_of(scope.benchmark)}/{_transcripts(scope)}" if scope.benchmark else ""


@dataclass(frozen=True, slots=True)
class PublishedBenchmark:
    """One benchmark, with all the data of its pages."""

    definition: Definition
    analysis: Analysis
    validations: Sequence[ValidationReport]
    conversations: int
    """The number of published conversations."""
    data: str
    """The folder of their transcripts, beside the pages."""
    number: int
    """The benchmark's number on the site, from 1."""

    @property
    def folder(self) -> str:
        return folder_of(self.definition.name)

    @property
    def view(self) -> BenchmarkView:
        return BenchmarkView(self.analysis, f"b{self.number}", 2, _transcripts)

    @property
    def size(self) -> str:
        """Its size, in a sentence."""
        metrics = self.definition.metrics
        positive = sum(metric.track is Track.POSITIVE for metric in metrics)
        return (
            f"{plural(len(metrics), 'metric')} ({positive} positive, "
            f"{len(metrics) - positive} negative), "
            f"{plural(len(self.analysis.targets), 'target')}, "
            f"{plural(self.conversations, 'conversation')} to read."
        )

    @property
    def people(self) -> Mapping[str, Sequence[str]]:
        """The values of each demographic axis."""
        return {axis: values_on(self.analysis, axis) for axis in self.analysis.axes}

    @property
    def links(self) -> Sequence[PageLink]:
        """Links to its pages, in order."""
        shown = {section.key for section in sections(self.analysis)}
        return [
            PageLink("results", "Results"),
            *(PageLink(key, label) for key, label in _OF_SECTIONS.items() if key in shown),
            *([PageLink("validation", "Validation")] if self.validations else []),
            *([_TRANSCRIPTS] if self.conversations else []),
        ]


def folder_of(benchmark: str) -> str:
    """The folder of a benchmark's pages, relative to the site's root."""
    return f"{FOLDER}/{benchmark}"


def site_pages(published: Sequence[PublishedBenchmark], at: datetime) -> Iterator[tuple[str, str]]:
    """Each page with its path, stylesheet and script included."""
    templates = environment()
    # begins with the style of the self-contained page, so that both look alike
    yield "site.css", templates.get_template("style.css").render() + _text("site.css")
    yield "site.js", _text("site.js")
    analyses = [benchmark.analysis for benchmark in published]
    together = overall(analyses) if len(published) > 1 else None
    all_of_them = None if together is None else BenchmarkView(together, "all", 2, _in_its_benchmark)
    shared = {
        "generator": _GENERATOR,
        "made": f"{at:{MOMENT}}",
        "published": published,
        "comparing": COMPARING,
        "pages_of_sections": _OF_SECTIONS,
        "together": "" if together is None else together_words([together]),
        "lead": lead_words(analyses, at),
        "most_targets": max(3, _MOST_ROWS // max(1, len(published))),
    }
    links = [link for link in _SITE if together is not None or link.kind != "differences"]
    for link in links:
        heading = link.label
        if link.kind == "index":
            alone = len(published) == 1
            heading = published[0].definition.title if alone else "What was measured"
        page = Page(link.kind, heading, heading, links, scripted=link.kind == "search")
        more: dict[str, Any] = {
            "view": all_of_them,
            "scripted": scripted_words(analyses),
            "page": page,
        }
        yield link.href, templates.get_template(f"site/{link.href}").render(**shared, **more)
    for benchmark in published:
        yield from _benchmark_pages(benchmark, links, templates, shared)


def _benchmark_pages(
    benchmark: PublishedBenchmark,
    links: Sequence[PageLink],
    templates: Environment,
    shared: Mapping[str, Any],
) -> Iterator[tuple[str, str]]:
    title = benchmark.definition.title
    for link in benchmark.links:
        page = Page(
            kind=link.kind,
            heading=title,
            title=title if link.kind == "results" else f"{link.label} · {title}",
            links=links,
            root="../../",
            scripted=link.kind == "transcripts",
        )
        more = {
            "view": benchmark.view,
            "scripted": scripted_words([benchmark.analysis]),
            "page": page,
            "benchmark": benchmark,
        }
        name = "section" if link.kind in _OF_SECTIONS else link.kind
        text = templates.get_template(f"site/{name}.html").render(**shared, **more)
        yield f"{benchmark.folder}/{link.href}", text


def _text(name: str) -> str:
    """The text of an asset, which is no template."""
    return files("engine.report.html").joinpath("assets", name).read_text("utf-8")
