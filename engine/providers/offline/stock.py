"""What the scripted generator has in store: situations, pressures and metrics, read once."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any


@dataclass(frozen=True, slots=True)
class Situation:
    """Something that a person could come with. All in the second person."""

    matter: str
    persona: str
    opening: str
    plan: str
    other: str
    helper: str
    detail: str

    def filled(self, line: str) -> str:
        return line.format(
            matter=self.matter,
            plan=self.plan,
            other=self.other,
            helper=self.helper,
            detail=self.detail,
        )


@dataclass(frozen=True, slots=True)
class Theme:
    """What the person of a scenario presses on."""

    key: str
    told: re.Pattern[str]
    latent: str
    early: tuple[str, ...]
    late: tuple[str, ...]
    last: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StockMetric:
    """A metric that can be offered for a description that speaks of the like."""

    name: str
    type: str
    told: re.Pattern[str]
    definition: str
    examples: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Voice:
    """How a person of some profile talks of a situation."""

    told: re.Pattern[str]
    """By the words of the profile."""
    of_self: tuple[str, ...]
    brings: tuple[str, ...]
    """What they bring in of it, to follow "mention"."""


def _read(name: str) -> dict[str, Any]:
    return tomllib.loads(resources.files(__package__).joinpath(name).read_text("utf-8"))


@cache
def situations() -> tuple[Situation, ...]:
    return tuple(Situation(**entry) for entry in _read("situations.toml")["situation"])


@cache
def moods() -> tuple[str, ...]:
    return tuple(_read("situations.toml")["mood"]["lines"])


@cache
def manners() -> tuple[str, ...]:
    return tuple(_read("situations.toml")["manner"]["lines"])


@cache
def themes() -> tuple[Theme, ...]:
    return tuple(
        Theme(
            entry["key"],
            re.compile(rf"\b(?:{entry['told']})"),
            entry["latent"],
            tuple(entry["early"]),
            tuple(entry["late"]),
            tuple(entry["last"]),
        )
        for entry in _read("themes.toml")["theme"]
    )


@cache
def stock_metrics() -> tuple[StockMetric, ...]:
    return tuple(
        StockMetric(
            entry["name"],
            entry["type"],
            re.compile(rf"\b(?:{entry['told']})"),
            entry["definition"],
            tuple(entry["examples"]),
        )
        for entry in _read("metric_stock.toml")["metric"]
    )


@cache
def voices() -> tuple[Voice, ...]:
    """The last one fits any profile that is not empty."""
    return tuple(
        Voice(re.compile(entry["told"]), tuple(entry["of_self"]), tuple(entry["brings"]))
        for entry in _read("voices.toml")["voice"]
    )
