"""What calls will cost before any is made: prices times what calls of a role usually use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from engine.benchmark import Role, Stage
from engine.config.settings import Config, ModelSpec
from engine.errors import InputError, Problem
from engine.providers.prices import Prices
from engine.providers.wire import Tokens


@dataclass(frozen=True, slots=True)
class Range:
    """From at least to at most."""

    low: float
    high: float

    def __add__(self, other: Range) -> Range:
        return Range(self.low + other.low, self.high + other.high)

    def __mul__(self, count: int) -> Range:
        return Range(self.low * count, self.high * count)


FREE: Final = Range(0.0, 0.0)

USUAL_TOKENS: Final[Mapping[Role, tuple[Range, Range]]] = {
    Role.GENERATOR: (Range(500, 1_500), Range(150, 3_000)),
    Role.USER: (Range(700, 4_000), Range(60, 300)),
    Role.TARGET: (Range(100, 4_000), Range(80, 900)),
    Role.EVALUATOR: (Range(900, 7_000), Range(100, 600)),
}
"""Input and output tokens of one call, without what a reasoning model thinks. An assumption, and
said to be one wherever it is used: what a model really writes depends on it."""


@dataclass(frozen=True, slots=True)
class Estimator:
    """Prices calls of the models of one configuration."""

    prices: Prices
    addresses: Mapping[str, str]
    """Where each model is reached, by its name on the wire."""

    def call(self, spec: ModelSpec, role: Role) -> Range | None:
        """In US dollars; None where the model's price is not known."""
        if spec.is_offline:
            return FREE
        tokens_in, tokens_out = USUAL_TOKENS[role]
        low = self._cost(spec, tokens_in.low, tokens_out.low)
        high = self._cost(spec, tokens_in.high, tokens_out.high)
        return None if low is None or high is None else Range(low, high)

    def _cost(self, spec: ModelSpec, tokens_in: float, tokens_out: float) -> float | None:
        tokens = Tokens(input=int(tokens_in), output=int(tokens_out))
        return self.prices.cost_usd(spec.model, self.addresses.get(spec.model, ""), tokens)

    def require_prices(self, config: Config) -> None:
        """A budget cannot be kept where a price is unknown. Raises `InputError` with each."""
        roles = [
            ("user_model", config.user_model),
            *_judges(config),
            ("generator_model", config.generator),
            *((f"targets[{n}]", target) for n, target in enumerate(config.targets)),
        ]
        problems = [
            Problem(
                f"run.budget needs the price of every model, that of {spec.model!r} is not known",
                path=config.path,
                key=key,
                hint="add `price: {input: …, output: …}`, in US dollars for a million tokens",
            )
            for key, spec in roles
            if self.call(spec, Role.TARGET) is None
        ]
        if problems:
            raise InputError(problems)


def _judges(config: Config) -> Iterator[tuple[str, ModelSpec]]:
    """Each with its place in the file."""
    if config.evaluators is None:
        yield "evaluator_model", config.evaluator_model
    else:
        for number, judge in enumerate(config.evaluators):
            yield f"evaluators[{number}]", judge


def stage_price(
    estimator: Estimator,
    config: Config,
    evaluator: ModelSpec | None,
    *,
    stage: Stage,
    target: str | None,
    calls: int,
    by_judge: Mapping[str, int] | None = None,
) -> Range | None:
    """What the calls of a stage cost; None where a price is not known.

    `evaluator` is another judge than those of the configuration. Where several judge, `by_judge`
    says how many of the calls each is asked; without it, they share them.
    """
    parts: Sequence[tuple[ModelSpec, Role, int]]
    match stage:
        case Stage.SIMULATE:
            one = next(known for known in config.targets if known.id == target)
            half = calls // 2
            parts = [(config.user_model, Role.USER, half), (one, Role.TARGET, calls - half)]
        case Stage.EVALUATE:
            judges = config.judges if evaluator is None else (evaluator,)
            each = by_judge or {judge.label: -(-calls // len(judges)) for judge in judges}
            parts = [(one, Role.EVALUATOR, each.get(one.label, 0)) for one in judges]
        case _:
            parts = [(config.generator, Role.GENERATOR, calls)]
    total = FREE
    for spec, role, count in parts:
        price = estimator.call(spec, role)
        if price is None:
            return None
        total += price * count
    return total
