"""What people's labels say of the judges, as one page with everything it needs inside."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256

from markupsafe import Markup

from engine.analysis.calibration import LEAST_LABELS, Calibration, CalibrationPart, RateOf
from engine.analysis.calibration_words import confusion_words, needed_words, shares_of
from engine.analysis.findings import coefficient, ends, percent, span
from engine.display import plural
from engine.report.html.page import environment
from engine.report.html.view import GENERATOR
from engine.statistics.agreement import Coefficient
from engine.statistics.calibration import Accuracy
from engine.statistics.distributions import Interval

_SCRIPTED = (
    "A judge here is a script and no language model: these numbers show how Crosswind works, and "
    "say nothing about any judge."
)


@dataclass(frozen=True, slots=True)
class CalibrationView:
    """One judge, as the template asks for it."""

    prefix: str
    """Of the ids on the page."""
    of: Calibration
    level: int = 2
    """Of its headings."""

    @property
    def tells(self) -> bool:
        """Whether there are labels enough for more than counts."""
        return self.of.labels >= LEAST_LABELS

    @property
    def parts(self) -> Sequence[tuple[str, Sequence[CalibrationPart]]]:
        return (("metric", self.of.by_metric), ("target", self.of.by_target))


def calibration_page(
    title: str,
    found: Sequence[Calibration],
    notes: Sequence[str],
    made: datetime,
    *,
    scripted: bool,
) -> str:
    """`notes` say who labelled, what was left out and whether people's verdicts count."""
    templates = environment()
    style = templates.get_template("style.css").render()
    labels = max((one.labels for one in found), default=0)
    return templates.get_template("calibration.html").render(
        generator=GENERATOR,
        style=Markup(style),  # noqa: S704  (a file of ours, which holds no text of others)
        style_digest=b64encode(sha256(style.encode()).digest()).decode(),
        title=title,
        lead=f"{plural(labels, 'label')}, {made:%d %B %Y, %H:%M} UTC",
        scripted=_SCRIPTED if scripted else "",
        notes=notes,
        views=[CalibrationView(f"j{number}", one) for number, one in enumerate(found, 1)],
        least=LEAST_LABELS,
        shares_of=shares_of,
        figures_of=_figures_of,
        coefficients_of=_coefficients_of,
        corrected_of=_corrected_of,
        confusion_words=confusion_words,
        needed_words=needed_words,
    )


def _figures_of(found: Accuracy) -> list[tuple[str, str]]:
    """What stands in a row of a table: each share, and its interval."""
    return [
        ("—", "") if share is None else (percent(share.value), _ends(share.interval))
        for _, share, _ in shares_of(found)
    ]


def _coefficients_of(part: Calibration | CalibrationPart) -> list[tuple[str, str]]:
    """AC1 and κ, each with its interval."""
    found = part.agreement
    return [
        _coefficient(one) for one in ((None, None) if found is None else (found.ac1, found.kappa))
    ]


def _coefficient(one: Coefficient | None) -> tuple[str, str]:
    if one is None:
        return "—", ""
    return coefficient(one.value), ends(one.interval)


def _corrected_of(rate: RateOf) -> list[tuple[str, str]]:
    """The judge's rate, and how it is corrected both ways, each with its interval."""
    powered, gladen = rate.powered, rate.rogan_gladen
    found = [(percent(rate.judged), f"of {rate.conversations:,}")]
    found.append(
        ("—", "") if powered is None else (percent(powered.value), _ends(powered.interval))
    )
    if gladen is None:
        found.append(("—", ""))
    elif gladen.value is None or gladen.interval is None:
        found.append(("cannot correct", ""))
    else:
        found.append((percent(gladen.value), _ends(gladen.interval)))
    return found


def _ends(interval: Interval) -> str:
    return span(interval.low, interval.high)
