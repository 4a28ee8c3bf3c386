"""Estimates the usage and cost of calls, from this workspace's calls or else from assumptions:
before a run, for what is left of it, and for the reservation of each call."""

from __future__ import annotations

import json
import re
from bisect import bisect
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import sqrt
from typing import Any, Final

from engine.benchmark import Role, Stage
from engine.config.schema import Config, ModelId, ModelSpec
from engine.config.secrets import VARIABLE
from engine.config.values import BATCH_FIRST
from engine.config.yaml_text import KeyPath, dotted_path, read_yaml
from engine.errors import Problem
from engine.identity import BATCH_ROUTE
from engine.pipeline.costs.budget import ExpectedCalls, ExpectedWork
from engine.pipeline.costs.ranges import (
    NONE,
    NOTHING,
    CallCost,
    Calls,
    CostEstimate,
    Range,
    StageCalls,
    fewest_turns,
)
from engine.pipeline.models import price_of, tier_of
from engine.providers.batches.queue import SHARE
from engine.providers.pricing import Prices
from engine.providers.protocols.base import Tokens
from engine.stages.answers import ASK_AGAIN
from engine.store.reader import Reader
from engine.store.tables import AttemptRow

_VARIANT: Final = re.compile(r"_v\d+\Z")
FEWEST: Final = 5
"""The fewest calls whose usage is trusted more than an assumption."""
ENOUGH: Final = 20
"""The fewest calls for which 5th and 95th percentiles are used; with fewer, the minimum divided by
`SPREAD` and the maximum times `SPREAD`."""
SPREAD: Final = 1.5
USUAL: Final = 0.95
SLACK: Final = 0.05
"""Added to the measured calls for each answer, as the likely maximum."""


@dataclass(frozen=True, slots=True)
class CallUsage:
    """What one call of a kind used."""

    input_tokens: Range
    output_tokens: Range
    usd: Range | None
    """The cost of a call; None where it is not known, or not of every measured call."""
    cached: float = 0.0
    """The share of input tokens that came from the provider's cache."""
    reported: bool = False
    """Whether the provider reported the cost of every call, so that no price is needed."""
    measured: bool = True

    def scaled(self, less: float, more: float) -> CallUsage:
        """Scale the input, and with it the cost, for shorter or longer conversations."""
        by = Range(less, more, 1.0)
        usd = None if self.usd is None else self.usd * by
        return replace(self, input_tokens=self.input_tokens * by, usd=usd)


@dataclass(frozen=True, slots=True)
class MeasuredUsage:
    """What the latest calls of a workspace used."""

    _seen: Mapping[tuple[Role, ModelId | str, bool], CallUsage] = field(default_factory=dict)
    """By model and, without what calls cost, by label: calls do not store at which address they
    were made, which follows from the configuration of their run, and not of all is known."""
    _lengths: Mapping[str, Range] = field(default_factory=dict)
    _again: Mapping[Role, Range] = field(default_factory=dict)
    _faults: Mapping[str, float] = field(default_factory=dict)

    def calls(self, role: Role, model: ModelId, items: int) -> CallUsage | None:
        """The usage of a call; None where too few were made. For a generator, answers with one item
        and answers with several `items` are measured separately."""
        several = items > 1
        return self._seen.get((role, model, several)) or self._seen.get(
            (role, model.label, several)
        )

    def length(self, target: str) -> Range | None:
        """Turns of a conversation with this target, given by its label; None where not measured."""
        return self._lengths.get(target)

    def faults(self, label: str) -> float:
        """The number of failed calls to a model for each answered one."""
        return self._faults.get(label, 0.0)

    def asked_again(self, role: Role) -> Range | None:
        """The number of calls of a role for each usable answer; None where too few were made."""
        return self._again.get(role)


def measured(reader: Reader) -> MeasuredUsage:
    """Measure the latest calls of all benchmarks."""
    used = reader.used_calls()
    groups: defaultdict[tuple[Role, ModelId | str, bool], list[AttemptRow]] = defaultdict(list)
    for call, model in zip(used, _models_of(used, reader), strict=True):
        # an attempt without token counts would pull the mean towards zero
        if call.usage.input_tokens is not None and call.usage.output_tokens is not None:
            several = _writes_several(call)
            groups[call.role, call.model, several].append(call)
            if model is not None:
                groups[call.role, model, several].append(call)
    seen = {key: _measured_usage(calls) for key, calls in groups.items() if len(calls) >= FEWEST}
    for key, usage in seen.items():
        if isinstance(key[1], str):
            # a model of this name at another address may have another price
            seen[key] = replace(usage, usd=None, reported=False)
    lengths, again = _lengths(used, reader), _retries_by_role(used, reader)
    return MeasuredUsage(seen, lengths, again, reader.faults())


def _models_of(used: Sequence[AttemptRow], reader: Reader) -> Iterator[ModelId | None]:
    """The model of each call: the only one of its label in the configuration of its run; None where
    there are several or no such run, as for calls that were imported."""
    runs = reader.run_configurations(min((call.seq for call in used), default=0))
    begun = [first for first, _, _ in runs]
    models = [_models_by_label(config) for _, _, config in runs]
    for call in used:
        place = bisect(begun, call.seq) - 1
        last = None if place < 0 else runs[place][1]
        in_run = place >= 0 and (last is None or call.seq < last)
        yield models[place].get(call.model) if in_run else None


@lru_cache(64)
def _models_by_label(config: str) -> Mapping[str, ModelId]:
    """The models in a stored configuration whose label no other has."""
    by_label: defaultdict[str, set[ModelId]] = defaultdict(set)
    with suppress(ValueError):  # of a damaged row
        for model in _models_in(json.loads(config)):
            by_label[model.label].add(model)
    alone = {label: found.pop() for label, found in by_label.items() if len(found) == 1}
    # the variable in an address may have had another value
    return {label: model for label, model in alone.items() if not VARIABLE.search(model.address)}


def _models_in(stored: Any) -> Iterator[ModelId]:
    match stored:
        case {"model": str(name), "source": str(source)}:
            address = stored.get("url") or stored.get("call") or stored.get("base_url") or ""
            yield ModelId(source, str(address), name)
        case dict():
            for inner in stored.values():
                yield from _models_in(inner)
        case list():
            for inner in stored:
                yield from _models_in(inner)


def _writes_several(call: AttemptRow) -> bool:
    """Whether an answer holds several items: metrics or base scenarios. A variant is alone."""
    if call.role is not Role.GENERATOR:
        return False
    return call.stage is Stage.GEN_METRICS or not _VARIANT.search(call.unit)


def _measured_usage(calls: Sequence[AttemptRow]) -> CallUsage:
    # as if none had been made in a batch, as the next ones may be made otherwise
    costs = [
        call.usage.cost_usd / (SHARE if call.route == BATCH_ROUTE else 1.0)
        for call in calls
        if call.usage.cost_usd is not None
    ]
    input_tokens = sum(call.usage.input_tokens or 0 for call in calls)
    cached_tokens = sum(call.usage.cached_tokens or 0 for call in calls)
    return CallUsage(
        spread_of([float(call.usage.input_tokens or 0) for call in calls]),
        spread_of([float(call.usage.output_tokens or 0) for call in calls]),
        # only if known for all: the mean of the known ones would be applied to the others, too
        spread_of(costs) if len(costs) == len(calls) else None,
        cached_tokens / input_tokens if input_tokens else 0.0,
        all(call.cost_reported for call in calls),
    )


def spread_of(amounts: Iterable[float]) -> Range:
    """The 5th to the 95th percentile and the mean; a wider range where there are few amounts."""
    ordered = sorted(amounts)
    mean = sum(ordered) / len(ordered)
    if len(ordered) < ENOUGH:
        return Range(ordered[0] / SPREAD, ordered[-1] * SPREAD, mean)
    place = int(len(ordered) * USUAL)
    low, high = ordered[len(ordered) - 1 - place], ordered[min(place, len(ordered) - 1)]
    # a mean outside of the percentiles comes from a few extreme amounts
    return Range(min(low, mean), max(high, mean), mean)


def _lengths(used: Sequence[AttemptRow], reader: Reader) -> dict[str, Range]:
    turns: defaultdict[str, list[float]] = defaultdict(list)
    # by take: a conversation that was played twice is two of them, and not one twice as long
    for model, number in reader.turns_played(min((call.seq for call in used), default=0) - 1):
        turns[model].append(float(number))
    lengths = {}
    for model, numbers in turns.items():
        if len(numbers) >= FEWEST:
            spread = spread_of(numbers)
            lengths[model] = Range(max(1.0, spread.low), spread.high, spread.expected)
    return lengths


def _retries_by_role(used: Sequence[AttemptRow], reader: Reader) -> dict[Role, Range]:
    """Calls for each usable answer: a target's reply answers one message of the user model, so
    further user model calls were repetitions; verdicts are counted in the store."""
    if not used:
        return {}
    calls = Counter(call.role for call in used)
    answers = {
        Role.USER: calls[Role.TARGET],
        Role.EVALUATOR: reader.verdicts_since(min(call.seq for call in used)),
    }
    by_role = {}
    for role, count in answers.items():
        if count >= ENOUGH and calls[role] >= ENOUGH:
            ratio = max(1.0, calls[role] / count)
            by_role[role] = Range(1.0, ratio + SLACK, ratio)
    return by_role


USER_ANSWER: Final = Range(40, 300, 120)
"""Output tokens of a user model's answer, its private thought included."""
USER_MESSAGE: Final = Range(20, 250, 90)
"""Output tokens of the message in it, which is input to all later calls."""
REPLY: Final = Range(40, 800, 250)
"""Output tokens of a target's reply, without the thinking of a reasoning model."""
VERDICT: Final = Range(50, 700, 220)
CHECK: Final = Range(40, 700, 160)
"""Output tokens of a check's answer."""
MARK: Final = Range(10, 14, 12)
"""Output tokens of a judge's mark on one reply, beside its verdict on the whole."""
WRITTEN: Final = Range(50, 800, 300)
"""Output tokens of one scenario or metric."""
THINKING: Final = Range(0, 4_000, 800)
"""Additional output tokens where `reasoning_effort` is set."""
TOLD: Final[Mapping[Role, Range]] = {
    Role.GENERATOR: Range(400, 2_000, 900),
    Role.USER: Range(450, 1_300, 750),
    Role.TARGET: Range(10, 800, 100),
    Role.EVALUATOR: Range(500, 1_200, 750),
    Role.CHECKER: Range(250, 900, 450),
}
"""Input tokens of a call without the conversation. This and the constants above are assumptions,
and are reported as such whenever they are used."""

LONGEST_ANSWER: Final = 8_192
"""Output tokens, where no `max_tokens` is written."""
_MANY: Final = 100_000
"""Tokens by which the price of one is found."""
LONGEST_WORDS: Final = (
    f"with an answer as long as its `max_tokens` ({LONGEST_ANSWER:,} where that is not set)"
)

ASKED_AGAIN: Final = Range(1.0, 1.35, 1.08)
"""Calls for each usable structured answer, where that was not measured."""
READ_AGAIN: Final = Range(1.0, 1.0 + ASK_AGAIN, 1.08)
"""As above, of a judge or checker: some never answer in the form, and every answer is asked for
nevertheless, while no conversation goes on behind an unusable message."""


def _most_calls(answers: float, mean: float, failed: int) -> float:
    """The most calls that so many answers are likely to take, at `mean` calls for one, of which
    `failed` take every try: the mean, and two standard deviations, which matter among few. Each
    answer takes at most `ASK_AGAIN` calls more than one, so their variance is at most `ASK_AGAIN`
    times their mean."""
    failed = min(failed, round(answers))
    others = answers - failed
    more = others * (mean - 1.0)
    more += 2.0 * sqrt(ASK_AGAIN * more)
    most = max(1.0 + ASK_AGAIN, mean)
    return min(others + more, others * most) + failed * most


@dataclass(frozen=True, slots=True)
class Estimator:
    """Estimates calls to the models of one configuration."""

    places: Mapping[ModelId, tuple[str, str]]
    """The name of each model on the wire, and its base URL."""
    turns: int = 1
    """The most turns of a conversation."""
    measured: MeasuredUsage = field(default_factory=MeasuredUsage)
    prices: Prices = field(default_factory=Prices)

    def estimate(self, parts: Iterable[Calls]) -> CostEstimate:
        return sum(map(self._cost_of, parts), NOTHING)

    def expected(self, stages: Iterable[StageCalls]) -> ExpectedWork:
        """What these calls are expected to cost, by kind, for a run to keep up to date; kinds
        without a known cost are left out."""
        by_kind: dict[tuple[Role, ModelId], ExpectedCalls] = {}
        by_target: defaultdict[str, dict[tuple[Role, ModelId], float]] = defaultdict(dict)
        for stage, part in ((one, part) for one in stages for part in one.parts):
            cost, kind = self._cost_of(part), (part.role, part.spec.identity)
            calls, usd = cost.calls.expected, cost.usd.expected
            if not calls or not usd:
                continue
            if (before := by_kind.get(kind)) is not None:
                # several parts may be of one kind: their mean, weighted by calls
                usd += before.number * before.usd
                calls += before.number
            first = self._first_turn(part)
            by_kind[kind] = ExpectedCalls(calls, usd / calls, first, self.turns)
            if stage.target is not None:
                each = self.calls(part.of_one_conversation(stage.rows, self.turns))
                by_target[stage.target][kind] = each.expected
        return ExpectedWork(by_kind, by_target)

    def _cost_of(self, asked: Calls) -> CostEstimate:
        calls = self.calls(asked)
        if asked.spec.is_offline:
            # scripts cost nothing, and their tokens are not counted
            return CostEstimate(calls)
        call = self.one_call(asked)
        return CostEstimate(
            calls,
            call.input_tokens * calls,
            call.output_tokens * calls,
            NONE if call.usd is None else call.usd * calls,
            calls if call.usd is None else NONE,
            call.measured or not calls.high,
            calls.expected * self.measured.faults(asked.spec.label),
        )

    def calls(self, asked: Calls) -> Range:
        """The number of calls: above the number of answers where some are repeated, below it where
        conversations end before their last turn."""
        answers = asked.answers
        length = None if asked.target is None else self.measured.length(asked.target.label)
        if length is not None and asked.conversations.high:
            fresh = asked.conversations
            # remaining turns of conversations that have begun; only fresh ones may end early
            rest = Range(
                max(0.0, answers.low - fresh.low * fewest_turns(self.turns)),
                max(0.0, answers.high - fresh.high * self.turns),
                max(0.0, answers.expected - fresh.expected * self.turns),
            )
            least = min(length.low, self.turns)
            expected = min(length.expected, self.turns)
            answers = rest + fresh * Range(least, self.turns, expected)
        if asked.role is Role.TARGET or asked.spec.is_offline:
            return answers
        usual = READ_AGAIN if asked.role in {Role.EVALUATOR, Role.CHECKER} else ASKED_AGAIN
        again = self.measured.asked_again(asked.role) or usual
        return replace(answers * again, high=_most_calls(answers.high, again.high, asked.failed))

    def one_call(self, asked: Calls) -> CallUsage:
        """The usage of one of these calls, averaged over a conversation in which calls grow."""
        spec = asked.spec
        seen = self.measured.calls(asked.role, spec.identity, asked.items)
        if seen is None:
            return self._assumed_call(asked, self.turns)
        used = seen.scaled(*self._length_factors(asked))
        # a configured price may have changed since; a reported cost does not depend on it
        usd = used.usd if spec.price is None or used.reported else None
        if usd is not None and spec.batch:
            usd *= _shares(spec)
        if usd is None:
            usd = self._usd(spec, used.input_tokens, used.output_tokens, used.cached)
        return replace(used, usd=usd)

    def _first_turn(self, asked: Calls) -> float:
        """The cost of such a call in the first turn of a conversation, as a share of the mean."""
        mean = self._assumed_call(asked, self.turns).usd
        first = self._assumed_call(asked, 1).usd
        if mean is None or first is None or not mean.expected:
            return 1.0
        return first.expected / mean.expected

    def _length_factors(self, asked: Calls) -> tuple[float, float]:
        """The factors by which conversations may be shorter or longer than the measured ones."""
        length = None if asked.target is None else self.measured.length(asked.target.label)
        if length is None:
            return 1.0, 1.0
        # the configuration may allow more turns now than for the measured conversations
        by = self.turns / max(length.high, 1.0)
        return min(1.0, by), max(1.0, by)

    def _assumed_call(self, asked: Calls, turns: int) -> CallUsage:
        spec, role = asked.spec, asked.role
        input_tokens, answer = TOLD[role], self._answer(spec, role, asked.items, turns)
        target = asked.target
        reply = REPLY if target is None else REPLY.capped(target.params.max_tokens)
        turn = USER_MESSAGE + reply
        # averaged over a conversation: the first call has no turn before it, the last all but one
        half = (turns - 1) / 2
        match role:
            case Role.USER:
                input_tokens += turn * Range(half / 2, half, half)
            case Role.TARGET:
                input_tokens += USER_MESSAGE + turn * Range(half / 2, half, half)
            case Role.EVALUATOR:
                input_tokens += turn * Range(fewest_turns(turns), turns, turns)
            case Role.CHECKER:
                input_tokens += USER_MESSAGE * Range(fewest_turns(turns), turns, turns)
            case _:
                pass
        usd = self._usd(spec, input_tokens, answer)
        return CallUsage(input_tokens, answer, usd, measured=False)

    def _answer(self, spec: ModelSpec, role: Role, items: int, turns: int) -> Range:
        match role:
            case Role.USER:
                tokens = USER_ANSWER
            case Role.TARGET:
                tokens = REPLY
            case Role.EVALUATOR:
                tokens = VERDICT + MARK * Range(fewest_turns(turns), turns, turns)
            case Role.CHECKER:
                tokens = CHECK
            case _:
                tokens = WRITTEN * items
        if spec.params.reasoning_effort not in {None, "none", "minimal"}:
            tokens += THINKING
        return tokens.capped(spec.params.max_tokens)

    def _usd(
        self, spec: ModelSpec, input_tokens: Range, answer: Range, cached: float = 0.0
    ) -> Range | None:
        low, high, expected = (
            self._price_usd(spec, Tokens(round(told), round(told * share), output=round(said)))
            for told, said, share in (
                (input_tokens.low, answer.low, cached),
                # at worst nothing comes from the provider's cache
                (input_tokens.high, answer.high, 0.0),
                (input_tokens.expected, answer.expected, cached),
            )
        )
        if low is None or high is None or expected is None:
            return None
        return Range(low, high, expected) * _shares(spec)

    def _price_usd(self, spec: ModelSpec, tokens: Tokens) -> float | None:
        name, address = self.places.get(spec.identity, (spec.model, ""))
        tokens = replace(tokens, tier=tier_of(spec))
        return self.prices.cost_usd(price_of(spec), name, address, tokens)

    def listed_price(self, spec: ModelSpec) -> tuple[float, float] | None:
        """The published price of a model that is free by its configuration, for a million tokens of
        input and of output; None where there is none at its address."""
        name, address = self.places.get(spec.identity, (spec.model, ""))
        if spec.price is None or spec.price.input or spec.price.output:
            return None
        # too few tokens to reach a separate price for long prompts
        some, tier = 1_000, tier_of(spec)
        sent, received = Tokens(some, output=0, tier=tier), Tokens(0, output=some, tier=tier)
        sent_usd = self.prices.cost_usd(None, name, address, sent)
        received_usd = self.prices.cost_usd(None, name, address, received)
        if not sent_usd or not received_usd:
            return None
        return sent_usd * 1_000_000 / some, received_usd * 1_000_000 / some

    def cost_of_call(self, spec: ModelSpec, role: Role) -> CallCost | None:
        """What a call may cost for which room in a budget is reserved; None where not known."""
        if spec.is_offline:
            return CallCost(0.0, 0.0)
        target = spec if role is Role.TARGET else None
        asked = Calls(role, spec, Range.exactly(1), target=target)
        assumed, seen = self._assumed_call(asked, self.turns), self.one_call(asked)
        if assumed.usd is None or seen.usd is None:
            return None
        share, longest = _shares(spec).high, spec.params.max_tokens or LONGEST_ANSWER
        answer, told, *tokens = (
            self._price_usd(spec, used) or 0.0
            for used in (
                Tokens(input=0, output=longest),
                Tokens(input=round(assumed.input_tokens.high), output=longest),
                # storing tokens in the provider's cache costs more than reading them
                Tokens(input=_MANY, output=0),
                Tokens(input=_MANY, output=0, cache_written=_MANY),
            )
        )
        usual = max(assumed.usd.high, seen.usd.high)
        most = max(usual, told * share)
        return CallCost(usual, most, answer * share, max(tokens) / _MANY * share)

    def unpriced(self, config: Config, keys: str, judge: ModelSpec | None = None) -> Problem | None:
        """A problem that names every model of unknown price, since no budget could be kept; None
        where there is none. `keys` are the budgets in the configuration, `judge` one from
        `models`."""
        unpriced = {
            at: spec.label
            for at, spec in _written_models(config, judge)
            if self.cost_of_call(spec, Role.TARGET) is None
        }
        if not unpriced:
            return None
        document = read_yaml(config.path)
        first, *more = unpriced
        names = ", ".join(
            [
                repr(unpriced[first]),
                *(
                    f"{unpriced[at]!r} ({dotted_path(at)}, line {document.place(at).line})"
                    for at in more
                ),
            ]
        )
        what = f"{keys} needs the price of every model, and that of {names} is not known"
        hint = "add `price: {input: …, output: …}`, in US dollars for a million tokens"
        return document.problem(first, what, hint=hint)


def _shares(spec: ModelSpec) -> Range:
    """What a call costs as a share of its price."""
    if not spec.batch:
        return Range.exactly(1.0)
    # what is asked again has the full price then
    return Range(SHARE, 1.0 if spec.batch == BATCH_FIRST else SHARE, SHARE)


def _written_models(config: Config, judge: ModelSpec | None) -> Iterator[tuple[KeyPath, ModelSpec]]:
    """Each model that may be called, with its place in the file; one that stands in for another is
    that other."""
    yield ("user_model",), config.user_model
    if config.evaluators is None:
        yield ("evaluator_model",), config.evaluator_model
    else:
        yield from ((("evaluators", number), spec) for number, spec in enumerate(config.evaluators))
    if config.generator_model is not None:
        yield ("generator_model",), config.generator_model
    crossed = max(1, len(config.conditions))
    for number, target in enumerate(config.targets[::crossed]):
        yield ("targets", number), target
    checker = config.checks.model if config.checks.kinds else None
    for name, spec in config.models.items():
        if name == checker or spec is judge:
            yield ("models", name), spec
