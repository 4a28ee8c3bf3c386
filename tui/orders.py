"""Work for the app that needs code slow to load: planning, pricing and analysis.

This code takes 2.6 times as long to load as what the first frame needs (0.9 s of processor time
against 0.35 s), so it is loaded when it is first needed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from engine.analysis.overall import ALL
from engine.benchmark import ConversationKey
from engine.cli.access import ahead_of
from engine.cli.person_labels import PersonDisputes, PersonSample
from engine.cli.piloting import PilotPage, pilot_page
from engine.cli.pricing import checked
from engine.cli.reviewing import PersonReview
from engine.cli.running import start
from engine.cli.session import Session
from engine.config.benchmark_file import load_definition
from engine.config.schema import config_of
from engine.config.templates import is_template, new_benchmark
from engine.people import SAMPLE_SEED, SAMPLE_SIZE
from engine.pipeline.counting import StoredConversations
from engine.pipeline.order import Order, PricedOrder, changed_words
from engine.pipeline.planner import RemainingWork
from engine.pipeline.provenance import TakeCalls, calls_of_take, stale_takes
from engine.pipeline.report import Report, build_overall_report, build_report
from engine.pipeline.results import decided_otherwise
from engine.store.open_reader import open_reader
from engine.store.tables import TakeCount
from engine.watch import BenchmarkInfo


@dataclass(frozen=True, slots=True)
class Orders:
    """Engine work for the app. Calls block and may take a while; they raise `CrosswindError`."""

    session: Session
    store: Path
    by: Callable[[], str | None] = lambda: None
    """The name under which the user labels and reviews; None if not chosen."""

    def start(self, order: Order | None) -> int:
        """Start the engine; without an order it waits for one. Returns its process id."""
        return start(self.session, order)

    def cost(self, order: Order) -> PricedOrder | None:
        """Price an order, as before every start or request; None if nothing in it costs money."""
        priced = checked(self.session, order)
        return priced if priced.lines else None

    def make(self, name: str) -> None:
        """Create a benchmark from the template. Raises `InputError` if the name is taken."""
        new_benchmark(self.session.workspace, name)

    def made_since(self, known: Collection[str]) -> list[BenchmarkInfo]:
        """The benchmarks that are not among those known. Raises `InputError`."""
        names = self.session.workspace.benchmark_names()
        return self.session.benchmark_infos([name for name in names if name not in known])

    def describe(self, name: str) -> BenchmarkInfo:
        """Read a benchmark's file as it is now. Raises `InputError`."""
        [info] = self.session.benchmark_infos([name])
        return info

    def is_template(self, name: str) -> bool:
        """Whether the benchmark's file is still as `make` wrote it."""
        return is_template(self.session.workspace.definition_path(name))

    def stale(self, benchmark: str) -> dict[int, str]:
        """Why counted takes are stale, by the take's `seq`. Takes as long as `report`."""
        config = config_of(self.session.config, benchmark)
        definition = load_definition(self.session.workspace.definition_path(benchmark))
        with closing(open_reader(self.store)) as reader:
            by_take = stale_takes(definition, config, reader)
        whys = {take: causes.take or causes.verdicts[0] for take, causes in by_take.items()}
        return {take: changed_words(why) or "" for take, why in whys.items()}

    def decided(self, benchmark: str) -> dict[int, TakeCount]:
        """The takes that the files decide otherwise than the store says, such as those that do not
        count, by `seq`."""
        with closing(open_reader(self.store)) as reader:
            counts = self.session.counts(benchmark, reader)
            return decided_otherwise(counts, StoredConversations.of(reader, benchmark))

    def calls(self, benchmark: str, key: ConversationKey, take: int) -> TakeCalls:
        """The calls behind the messages of a take."""
        config = config_of(self.session.config, benchmark)
        definition = load_definition(self.session.workspace.definition_path(benchmark))
        with closing(open_reader(self.store)) as reader:
            return calls_of_take(definition, config, reader, key, take)

    def label(self, benchmark: str) -> PersonSample:
        """Open the user's label sample, drawing it if there is none."""
        words = (SAMPLE_SIZE, SAMPLE_SEED)
        return PersonSample.open(self.session, benchmark, self.by(), *words, new=False)

    def disputes(self, benchmark: str) -> PersonDisputes:
        """Open the items on which human labellers disagree."""
        return PersonDisputes.open(self.session, benchmark, self.by())

    def pilot(self, benchmark: str) -> PilotPage:
        """The page on a pilot: a few conversations of each metric."""
        return pilot_page(self.session, benchmark)

    def ahead(self, benchmark: str) -> RemainingWork:
        """The benchmark's work that waits for a person."""
        with closing(open_reader(self.store)) as reader:
            return ahead_of(self.session, benchmark, reader)

    def review(self) -> PersonReview:
        """The reviews of metrics and scenarios."""
        return PersonReview(self.session, self.by)

    def report(self, benchmark: str) -> Report:
        """Build the report on a benchmark, or for `ALL` on all of them. Slow on a large store."""
        if benchmark == ALL:
            return build_overall_report(self.session.workspace, self.session.config, self.store)
        return build_report(self.session.workspace, self.session.config, self.store, benchmark)
