"""What the app has done by code that takes long to load: what plans, prices and adds up.

It takes 2.6 times as long to load as what the first frame needs (0.9 s of the processor beside
0.35 s), so it is loaded when a run is prepared, or when something is first asked for.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from engine.analysis.overall import ALL
from engine.cli.person_labels import PersonDisputes, PersonSample
from engine.cli.piloting import PilotPage, pilot_page, priced_pilot
from engine.cli.pricing import checked, confirmed
from engine.cli.reviewing import ReviewDesk, ahead_of
from engine.cli.running import PreparedRun, held_to, prepare_demo, prepare_run, start, tell_next
from engine.cli.session import Session
from engine.config.benchmark_file import load_definition
from engine.config.schema import config_of
from engine.config.templates import is_template, new_benchmark
from engine.pipeline.label_requests import SAMPLE_SEED, SAMPLE_SIZE
from engine.pipeline.order import Order, PricedOrder, changed_words
from engine.pipeline.planner import RemainingWork
from engine.pipeline.provenance import stale_takes
from engine.pipeline.report import Report, build_overall_report, build_report
from engine.store.reading import open_reader
from engine.watch import BenchmarkInfo


def prepare(arguments: argparse.Namespace) -> AppRun | None:
    """What `demo` and `run` ask for, checked and priced; None where a person does not agree to the
    price. Raises `CrosswindError`."""
    if arguments.command == "demo":
        prepared = prepare_demo(arguments)
        prepared.session.require_free()
        checked(prepared.session, prepared.order)
        return AppRun(prepared)
    prepared = prepare_run(arguments)
    prepared.session.require_free()
    order = confirmed(prepared.session, prepared.order, arguments)
    return None if order is None else AppRun(replace(prepared, order=order))


@dataclass(frozen=True, slots=True)
class AppRun:
    """A run that the app is opened for."""

    prepared: PreparedRun

    @property
    def session(self) -> Session:
        return self.prepared.session

    def start(self) -> int:
        """The engine's process id. Raises `EngineStartError`."""
        return start(self.session, self.prepared.order)

    def exit_code(self) -> int:
        """What the gates say of a run that is over."""
        return held_to(self.session, self.prepared.order, self.prepared.gates)

    @property
    def next_steps(self) -> Callable[[], None] | None:
        """Says them, where `--until` asked the run to stop before its results."""
        prepared, until = self.prepared, self.prepared.until
        if until is None:
            return None
        return lambda: tell_next(prepared.session, prepared.order, until, is_over=True)


@dataclass(frozen=True, slots=True)
class Orders:
    """Each call does its work at once and takes a while. Raises `CrosswindError`."""

    session: Session
    store: Path
    by: Callable[[], str | None] = lambda: None
    """The name by which this person labels and reviews; None where they have not said."""

    def start(self, order: Order | None) -> int:
        """The engine's process id; without an order it waits to be asked."""
        return start(self.session, order)

    def cost(self, order: Order) -> PricedOrder | None:
        """None where nothing costs money. Whatever is started or asked for is priced here first."""
        price = priced_pilot if order.pilot else checked
        priced = price(self.session, order)
        return priced if priced.lines else None

    def make(self, name: str) -> BenchmarkInfo:
        """Writes a benchmark of this name. Raises `InputError` where there is one."""
        new_benchmark(self.session.workspace, name)
        return self.describe(name)

    def describe(self, name: str) -> BenchmarkInfo:
        """What a benchmark's file says now. Raises `InputError`."""
        [found] = self.session.infos([name])
        return found

    def is_template(self, name: str) -> bool:
        """Whether its file is still as `make` wrote it."""
        return is_template(self.session.workspace.definition_path(name))

    def stale(self, benchmark: str) -> dict[int, str]:
        """Why what counts is stale, by the `seq` of each such take; as long as `report` takes."""
        config = config_of(self.session.config, benchmark)
        definition = load_definition(self.session.workspace.definition_path(benchmark))
        with closing(open_reader(self.store)) as reader:
            found = stale_takes(definition, config, reader)
        whys = {take: each.take or each.verdicts[0] for take, each in found.items()}
        return {take: changed_words(why) or "" for take, why in whys.items()}

    def label(self, benchmark: str) -> PersonSample:
        """This person's sample, drawn where there is none."""
        words = (SAMPLE_SIZE, SAMPLE_SEED)
        return PersonSample.open(self.session, benchmark, self.by(), *words, new=False)

    def disputes(self, benchmark: str) -> PersonDisputes:
        """What people who labelled it disagree on."""
        return PersonDisputes.open(self.session, benchmark, self.by())

    def pilot(self, benchmark: str) -> PilotPage:
        """What a few conversations of each metric say."""
        return pilot_page(self.session, benchmark)

    def ahead(self, benchmark: str) -> RemainingWork:
        """What of it waits for a person."""
        with closing(open_reader(self.store)) as reader:
            return ahead_of(self.session, benchmark, reader)

    def review(self) -> ReviewDesk:
        """What people say of metrics and scenarios."""
        return ReviewDesk(self.session, self.by)

    def report(self, benchmark: str) -> Report:
        """The results of all verdicts, for `ALL` of all benchmarks together; takes a while on a
        large store."""
        if benchmark == ALL:
            return build_overall_report(self.session.workspace, self.session.config, self.store)
        return build_report(self.session.workspace, self.session.config, self.store, benchmark)
