"""What a plan could find out, before it is paid for."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Final

from engine.statistics.distributions import student_quantile
from engine.statistics.family import ERROR_RATE
from engine.statistics.paired import FAR_OUT

POWER: Final = 0.8


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is to be played with each of two targets, on the same scenarios."""

    metrics: int
    scenarios: int
    """Base scenarios of each metric."""
    variants: int
    samples: int

    @property
    def rows(self) -> int:
        return self.metrics * self.scenarios * self.variants * self.samples


@dataclass(frozen=True, slots=True)
class Assumed:
    """What is supposed, or was seen, of the targets."""

    rate: float = 0.7
    """Their common pass rate."""
    correlation: float = 0.2
    """How alike the differences within one base scenario are (intra-class)."""
    between_targets: float = 0.0
    """How far two targets pass and fail on the same rows, 0 to 1; 0 is the cautious guess."""


def smallest_difference(
    plan: Plan, assumed: Assumed | None = None, *, level: float = ERROR_RATE
) -> float | None:
    """The smallest true difference between two pass rates that is marked with a probability of
    80 %, where one that is not there is marked with a probability of `level`; None where no plan of
    this size can (fewer than two clusters, or more than 1 would be needed).

    (t(1 - level / 2) + t(.8)) * SE with SE^2 = 2 p (1 - p) (1 - r) * deff / n: S. L. Lohr,
    Sampling: Design and Analysis (2010), section 2.6 and eq. 5.12; t for z: Cochran (1977), section
    4.5.
    """
    assumed = assumed or Assumed()
    per_cluster = plan.variants * plan.samples
    if min(plan.metrics, plan.scenarios, per_cluster) < 1:
        return None
    deff = 1 + (per_cluster - 1) * assumed.correlation
    spread = 2 * assumed.rate * (1 - assumed.rate) * (1 - assumed.between_targets)
    return detectable(
        sqrt(spread * deff / plan.rows), _freedom(plan.metrics, plan.scenarios), level
    )


def detectable(error: float, freedom: int, level: float) -> float | None:
    """The same from the standard error of the difference; None for no freedom or beyond 1."""
    if freedom < 1:
        return None
    found = (
        student_quantile(1 - level / 2, freedom + FAR_OUT) + student_quantile(POWER, freedom)
    ) * error
    return found if found <= 1 else None


def _freedom(metrics: int, scenarios: int) -> int:
    """A metric of one scenario has no variance of its own; such metrics are taken together."""
    return metrics * (scenarios - 1) if scenarios > 1 else metrics - 1
