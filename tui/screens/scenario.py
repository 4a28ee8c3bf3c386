"""One scenario with all its targets, samples and variants."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

from textual.binding import BindingType
from textual.containers import Horizontal
from textual.widget import Widget

from engine.benchmark import ConversationKey, Metric, Scenario, base_id
from engine.display import display_text, one_line, plural
from engine.errors import StoreError
from engine.facts import Fact, StateChanged, TakeEnded, TakeStarted, VerdictGiven
from engine.store.browsing import Browser, RelatedTake
from tui.bindings import key
from tui.format import UNKNOWN
from tui.screens.base import DEFINITION, ReadingScreen, Shell, ShellCommand, fault_passage
from tui.screens.cards import metric_blocks
from tui.state.headline import group_words, info_of, metric_in, metric_line
from tui.state.related import RowCursor, Subject, TakeRef, counting_takes, outcome_piece
from tui.state.transcript import scenario_parts, verdict_blocks
from tui.text.blocks import Block, Passage, Rule
from tui.text.ink import Ink, Piece
from tui.widgets.grids import GridCell, Group, OutcomeGrid
from tui.widgets.lines import OneLine
from tui.widgets.transcript import TranscriptView


class ScenarioScreen(ReadingScreen, inherit_bindings=False):
    """Shows a base scenario and all of its variants from the store."""

    BINDINGS: ClassVar[list[BindingType]] = [
        key("C", "compare", "compare", "read it side by side with another"),
        DEFINITION,
        key("r", "judge_again", "judge again", "judge it again, by the judge you choose"),
        key("R", "play_again", "play again", "play it again; the takes that are there stay"),
    ]

    def __init__(
        self,
        shell: Shell,
        benchmark: str,
        scenario_id: str,
        *,
        cursor: ConversationKey | None = None,
    ) -> None:
        """The cursor starts on `cursor`, or on the first conversation of the scenario."""
        super().__init__(shell)
        self._grid = OutcomeGrid(id="rows")
        self._legend = OneLine(id="legend")
        self._detail = TranscriptView(follow=False, id="detail")
        self._side = TranscriptView(follow=False, id="side")
        self._benchmark = benchmark
        self._scenario_id = scenario_id
        self._begin_at = cursor
        self._begun = False
        self._detailed: GridCell | None = None
        """The cell described below the grid."""
        self._metric: Metric | None = None
        self._scenarios: Sequence[Scenario] = ()
        self._targets: Sequence[str] = ()
        self._samples = 1
        self._kin: Mapping[ConversationKey, RelatedTake] = {}

    @property
    def subject(self) -> Subject | None:
        take = self._at(self._grid.cursor)
        return None if take is None else Subject(self._benchmark, take.key)

    @property
    def scenario(self) -> tuple[str, str]:
        return self._benchmark, self._scenario_id

    @property
    def commands(self) -> Sequence[ShellCommand]:
        words = ("show", self._scenario_id, "--benchmark", self._benchmark)
        return [*super().commands, ShellCommand("v", words)]

    def parts(self) -> Sequence[Widget]:
        sheets = Horizontal(self._detail, self._side, id="sheets")
        return [self._title, self._asked, self._grid, self._legend, sheets]

    def on_mount(self) -> None:
        self._grid.focus()

    def hint(self, action: str) -> str | None:
        if action in {"open", "compare", "judge_again", "play_again"}:
            return "" if self.subject is None else None
        return None

    def concerns(self, fact: Fact) -> bool:
        base = base_id(self._scenario_id)
        if fact.benchmark != self._benchmark:
            return False
        if isinstance(fact, StateChanged):
            return fact.unit.startswith(base)
        if isinstance(fact, TakeStarted | TakeEnded | VerdictGiven):
            return base_id(fact.key.scenario_id) == base
        return False

    def on_cursor_view_opened(self) -> None:
        opened = self._at(self._grid.cursor)
        if opened is None:
            self.shell.tell("It has not been played yet.")
            return
        played = [related for spot in self._grid_cells() if (related := self._at(spot)) is not None]
        rows = array("q", [take.take_seq for take in played])
        among = RowCursor(Browser(self.watched.reader), rows, played.index(opened))
        self.shell.navigator.open_conversation(self._benchmark, opened.key, among=among)

    def on_cursor_view_moved(self) -> None:
        self._draw_detail()
        self.draw_lines()

    def action_compare(self) -> None:
        take = self._at(self._grid.cursor)
        if take is not None:
            shown = TakeRef(self._benchmark, take.key, take.number)
            self.shell.navigator.open_comparison(shown)

    def read(self) -> None:
        reader = self.watched.reader
        base = base_id(self._scenario_id)
        kin = Browser(reader).related_takes(self._benchmark, self._scenario_id)
        stored = reader.scenarios(self._benchmark)
        self._metric = metric_in(self.watched, self._benchmark, self._scenario_id)
        self._kin = counting_takes(kin)
        known = {row.scenario.id: row.scenario for row in stored}
        played = {row.scenario.id for row in stored if row.played}
        played |= {take.key.scenario_id for take in kin}
        mine = sorted(name for name in played if base_id(name) == base)
        self._scenarios = [known[name] for name in mine if name in known] or [
            scenario for name, scenario in known.items() if base_id(name) == base
        ]
        info = info_of(self.watched, self._benchmark)
        wanted = [target.id for target in info.targets] if info is not None else []
        others = sorted({take.key.target_id for take in kin} - set(wanted))
        self._targets = [*wanted, *others]
        self._samples = max((take.key.sample for take in kin), default=0) + 1

    def show_text(self) -> None:
        glyphs, signs = {}, dict[str, Ink]()
        for spot in self._grid_cells():
            piece = outcome_piece(self._at(spot))
            glyphs[spot] = Piece(piece.text[:1], piece.ink)
            if piece.text[:1] not in "✓✗":
                signs[piece.text] = piece.ink
        names = list(map(one_line, self._targets))
        passed = [
            self._passed(spot for spot in glyphs if spot.row == row) for row in range(len(names))
        ]
        self._grid.show(names, passed, self._groups, self._samples, glyphs)
        self._legend.show([Piece(f" {words} ", ink) for words, ink in sorted(signs.items())])
        if not self._begun:
            self._begun = True
            self._grid.put_on(self._first_spot())
        self._draw_detail()

    @property
    def _groups(self) -> list[Group]:
        return [
            Group(
                _variant(scenario),
                group_words(scenario.demographic),
                self._passed(spot for spot in self._grid_cells() if spot.group == place),
            )
            for place, scenario in enumerate(self._scenarios)
        ]

    def _passed(self, spots: Iterable[GridCell]) -> str:
        """`4/6`: how many of those that are scored passed."""
        takes = [take for spot in spots if (take := self._at(spot)) is not None and take.judged]
        scored = [take.passed for take in takes if take.passed is not None]
        return f"{sum(scored)}/{len(scored)}" if scored else UNKNOWN

    def _first_spot(self) -> GridCell:
        ids = [scenario.id for scenario in self._scenarios]
        where = self._begin_at
        scenario = self._scenario_id if where is None else where.scenario_id
        group = ids.index(scenario) if scenario in ids else 0
        if where is None or where.target_id not in self._targets:
            return GridCell(0, group, 0)
        return GridCell(self._targets.index(where.target_id), group, where.sample)

    def _grid_cells(self) -> list[GridCell]:
        return [
            GridCell(row, group, cell)
            for row in range(len(self._targets))
            for group in range(len(self._scenarios))
            for cell in range(self._samples)
        ]

    def _at(self, spot: GridCell) -> RelatedTake | None:
        if spot.row >= len(self._targets) or spot.group >= len(self._scenarios):
            return None
        scenario, target = self._scenarios[spot.group].id, self._targets[spot.row]
        return self._kin.get(ConversationKey(scenario, target, spot.cell))

    def draw_lines(self) -> None:
        words = [Piece(one_line(self._benchmark), Ink.MUTED)]
        self.show_heading("Scenario", words)
        title = [Piece(" "), Piece(one_line(base_id(self._scenario_id)), Ink.STRONG)]
        title.append(Piece(f"  {plural(len(self._scenarios), 'variant')}", Ink.MUTED))
        judged = [take.passed for take in self._kin.values() if take.judged]
        tally = [
            Piece(f"✗ {judged.count(False)} ", Ink.BAD),
            Piece(f"✓ {judged.count(True)} ", Ink.GOOD),
            Piece(f"· {judged.count(None)} ", Ink.WARN),
        ]
        self._title.show(title, tally)
        self._draw_metric()

    def _draw_metric(self) -> None:
        here, groups = self._grid.cursor.group, self._groups
        shown = next(iter(groups[here : here + 1]), Group(""))
        asked = metric_line(self._metric, [shown.name], self.size.width, shown.who)
        self._asked.show_if_any(*asked)

    def _draw_detail(self) -> None:
        spot, wide = self._grid.cursor, self.is_wide
        other, self._detailed = spot != self._detailed, spot
        blocks, setup = self._detail_blocks()
        beside = [*self._metric_blocks(), *setup] if wide else []
        blocks += [] if wide else setup
        for view, shown in ((self._detail, blocks), (self._side, beside)):
            if other:
                view.show_another(shown, follow=False)
            else:
                view.show(shown)

    def _metric_blocks(self) -> list[Block]:
        return [] if self._metric is None else metric_blocks(self._metric)

    def _detail_blocks(self) -> tuple[list[Block], list[Block]]:
        """The verdicts on the conversation at the cursor, and the setup of its user model."""
        if self.fault is not None:
            return [fault_passage(self.fault)], []
        if not self._scenarios:
            sentence = "Nothing of it is stored. Where writing it failed, 3 and then X say why."
            return [Passage("none", "", sentence, ink=Ink.WARN)], []
        spot = self._grid.cursor
        setup = _setup(self._scenarios[min(spot.group, len(self._scenarios) - 1)])
        take = self._at(spot)
        blocks: list[Block] = []
        if take is not None:
            # a verdict begins with its outcome
            state = "" if take.judged else outcome_piece(take).text
            blocks.append(Rule("which", one_line(str(take.key)), state, ink=Ink.STRONG))
        try:
            if take is not None:
                verdicts = self.watched.reader.verdicts(take.take_seq)
                blocks += verdict_blocks(verdicts, self.watched.jury)
        except StoreError as error:
            blocks.append(fault_passage(error))
        return blocks, setup


def _variant(scenario: Scenario) -> str:
    """`v01`; a base scenario's whole id."""
    return one_line(scenario.id.removeprefix(scenario.base_id).lstrip("_") or scenario.id)


def _setup(scenario: Scenario) -> list[Block]:
    """The user's role and actions, which tell variants apart."""
    return [
        Rule("setup", one_line(scenario.id)),
        *(
            Passage(("setup", place), label, display_text(text), Ink.USER, close=True)
            for place, (label, text) in enumerate(scenario_parts(scenario))
        ),
    ]
