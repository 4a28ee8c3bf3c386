"""What `results` says of an imported workspace, as data, in sentences, on the page and in the app,
is what a recount of its files finds."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

import pytest

from engine.analysis.findings import answer
from engine.config.schema import load_config
from engine.config.workspace import Workspace
from engine.pipeline.report import build_report
from tests.engine.commands import crosswind
from tests.recount.count import Counted, counted
from tests.recount.made import Made
from tests.recount.said import contradictions, sentences, untrue
from tui.results.leaderboard import says_rows

KINDS = {
    "crossed": Made(4, 4, 4, gap=0.8),
    "uncrossed": Made(8, 4, 3, crossed=False),
}


class Recounted:
    """An imported benchmark, what the program says of it, and what is so."""

    def __init__(self, root: Path, made: Made) -> None:
        self.made = made
        self.root = root / "ours"
        self.root.mkdir()
        made.write(root / "theirs")
        (self.root / "config.yaml").write_text(made.config)
        crosswind(self.root, "import", str(root / "theirs"))
        crosswind(self.root, "repair", "--files")
        [(self.name, self.rows)] = crosswind(self.root, "results", "--json").json().items()
        self.said = sentences(crosswind(self.root, "results", "--details").out)
        crosswind(self.root, "export", "html", "--out", str(self.root / "page.html"))
        self.page = (self.root / "page.html").read_text("utf-8")
        folder = self.root / "benchmarks" / self.name
        self.found: Counted = counted(folder, made.names, made.samples, self._by_gap("p"))

    @property
    def marked(self) -> dict[Any, bool]:
        """Gaps, as the data has them."""
        return self._by_gap("marked")

    def _by_gap(self, what: str) -> dict[Any, Any]:
        return {
            (gap["axis"], gap["value"], gap["against"], whose): gap[what]
            for row in self.rows
            for whose, kind in (
                (None, "demographics_of_all_targets"),
                (row["target_model"], "demographics"),
            )
            for gap in row["comparisons"][kind]
        }


@pytest.fixture(
    scope="module", params=[pytest.param("uncrossed", marks=pytest.mark.long), "crossed"]
)
def recounted(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Recounted:
    return Recounted(tmp_path_factory.mktemp(str(request.param)), KINDS[request.param])


@pytest.mark.exhaustive
def test_no_figure_is_contradicted(recounted: Recounted) -> None:
    assert contradictions(recounted.found, recounted.rows) == []


def test_every_sentence_is_so(recounted: Recounted) -> None:
    assert len(recounted.said) > 7
    assert untrue(recounted.found, recounted.said, recounted.marked) == []


def test_a_significant_gap_is_among_the_sentences(recounted: Recounted) -> None:
    """In the workspace that is made for it: else the rule for such sentences would try nothing."""
    told = any(re.match(r"✓ \w+: \w+ > ", sentence) for sentence in recounted.said)
    assert told is any(recounted.marked.values())
    assert told or recounted.made.gap < 0.5


def test_a_sentence_with_another_number_would_be_found_out(recounted: Recounted) -> None:
    """Of each number but the interval of what is fitted, of which a recount has no other."""
    for sentence in recounted.said:
        text = re.sub(r"target-\d+|; .* 4 times out of 5.*", "", sentence)
        numbers = set(re.findall(r"(?<![\d.,])\d+(?![\d.,]*\d)", text))
        for number in sorted(numbers - {"0", "8"})[:2]:
            other = re.sub(
                rf"(?<![\d.,-]){number}(?![\d.,]*\d)", str(int(number) + 3), sentence, count=1
            )
            if "[" in other and not recounted.found.crossed:
                continue
            assert untrue(recounted.found, [other], recounted.marked), other


def test_the_page_and_the_app_say_the_same_sentences(recounted: Recounted) -> None:
    answered, _, in_full = recounted.page.partition("Findings in full")
    place = Workspace(recounted.root)
    config = load_config(place.root / "config.yaml")
    analysis = build_report(place, config, place.store_path(config), recounted.name).analysis
    lines = [
        "".join(one.text for one in row.line) for row in says_rows(analysis, 100, in_full=True)
    ]
    shown = " ".join(" ".join(line.split()) for line in lines)
    for sentence in recounted.said:
        assert sentence in shown

    # the answer: the same lines in the same order, everywhere
    answer_lines = [str(line) for line in answer(analysis)]
    assert listed(answered) == answer_lines
    assert set(listed(in_full)) == set(recounted.said) - set(answer_lines)
    printed = crosswind(recounted.root, "results").words
    for text in (printed, shown):
        places = [text.find(line) for line in answer_lines]
        assert -1 not in places
        assert places == sorted(places)


def listed(page: str) -> list[str]:
    """The items of lists of findings."""
    items = re.findall(r"<li[^>]*><span class=\"sign\"[^>]*>(.)</span>(.*?)</li>", page)
    return [f"{mark} {html.unescape(re.sub('</?code>', '`', text))}" for mark, text in items]
