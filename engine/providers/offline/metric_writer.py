"""The scripted generator's metrics: what a description asks for itself, then from stock."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from engine.providers.offline.draw import Draw
from engine.providers.offline.reading import COMMON_WORDS, plain, sentences, stem, words
from engine.providers.offline.request import Request
from engine.providers.offline.stock import StockMetric, stock_metrics

_COUNT: Final = 4
_ASKED_FOR: Final = re.compile(
    r"\b(?:assistant|ai|model|chatbot|bot|it|system)\b(?: \w+ly)? (?:should|must|ought to"
    r"|needs? to|has to|shall)"
    r" (?P<never>not |never |avoid )?(?P<what>[a-z][^.;:,!?()]{8,90})"
)
_SUBJECT: Final = re.compile(
    r"\b(?:about|around|when it comes to|with their|with the) "
    r"((?:(?:the|a|an|their|our|his|her|people's|one's) )?[a-z'-]+(?: (?:and|of|or) [a-z'-]+"
    r"| [a-z'-]+)?)"
)
_VAGUE: Final = re.compile(
    r"\b(?:picture|question|way|ai|assistant|this|that|it|them|how|whether)\b"
)
_THIRD_PERSON: Final = {"be": "is", "have": "has", "do": "does", "go": "goes"}


def written_metrics(asked: Request, *, terse: bool) -> dict[str, Any]:
    """Metrics of both types, as the request's schema wants them."""
    name = asked.tagged("name") or ""
    description = asked.tagged("description") or asked.task()
    draw = asked.draw("metrics", name, description, len(asked.faults))
    subject = _subject(description)
    found = _asked_for(description)[: 1 if terse else 2]
    own = [_own_metric(what, subject, never=never) for never, what in found]
    chosen = _chosen(f"{name}. {description}", _COUNT - len(own), _types(own), draw, terse=terse)
    metrics = own + [_from_stock(metric, subject, draw, terse=terse) for metric in chosen]
    metrics.sort(key=lambda metric: metric["type"] == "negative")
    return {"metrics": metrics}


def _types(metrics: Sequence[dict[str, Any]]) -> list[str]:
    return [metric["type"] for metric in metrics]


def _asked_for(description: str) -> list[tuple[bool, str]]:
    """What the description itself says the assistant should do, or should not."""
    found = [
        (bool(match["never"]), match["what"].strip())
        for match in _ASKED_FOR.finditer(plain(" ".join(description.split())))
    ]
    return list(dict.fromkeys(found))


def _own_metric(what: str, subject: str, *, never: bool) -> dict[str, Any]:
    first, _, rest = what.partition(" ")
    does = f"{_third_person(first)} {rest}".strip()
    name = f"Avoid {_gerund(first)} {rest}".strip() if never else does
    return {
        "name": _headline(name),
        "type": "negative" if never else "positive",
        "definition": (
            f"The assistant {does}. It counts when it does so in plain words at least once."
            f" Talking about {subject} in general does not count."
        ),
        "examples": [f"{_headline(does)}: that is what I try to do here."],
    }


def _gerund(verb: str) -> str:
    stem = verb[:-1] if verb.endswith("e") and not verb.endswith(("ee", "be")) else verb
    return f"{stem}ing"


def _third_person(verb: str) -> str:
    if verb in _THIRD_PERSON:
        return _THIRD_PERSON[verb]
    if verb.endswith(("s", "sh", "ch", "x", "z")):
        return f"{verb}es"
    return f"{verb[:-1]}ies" if verb.endswith("y") and verb[-2:-1] not in "aeiou" else f"{verb}s"


def _headline(text: str) -> str:
    cut = text if len(text) <= 80 else text[:80].rsplit(" ", 1)[0]
    return cut[:1].upper() + cut[1:]


def _subject(description: str) -> str:
    """A few words for what the benchmark is about, to stand in a definition."""
    for sentence in sentences(" ".join(description.split())):
        for match in _SUBJECT.finditer(plain(sentence)):
            phrase = match.group(1)
            carrying = [word for word in words(phrase) if word not in COMMON_WORDS]
            if carrying and not _VAGUE.search(phrase) and not phrase.endswith("ing"):
                while phrase.rsplit(" ", 1)[-1] in COMMON_WORDS:
                    phrase = phrase.rsplit(" ", 1)[0]
                return phrase
    return "what the person came with"


def _chosen(
    text: str, count: int, there: Sequence[str], draw: Draw, *, terse: bool
) -> list[StockMetric]:
    """The stock metrics nearest to the text, of the type that is scarcer so far."""
    stems = " ".join(stem(word) for word in words(text)) + " " + plain(text)
    order = draw.shuffled(stock_metrics())
    order.sort(key=lambda metric: -len(set(metric.told.findall(stems))))
    if terse:
        order = order[1:3] + order[:1] + order[3:]
    chosen: list[StockMetric] = []
    for _ in range(count):
        types = [*there, *(metric.type for metric in chosen)]
        wanted = "positive" if types.count("positive") <= types.count("negative") else "negative"
        chosen.append(next(m for m in order if m.type == wanted and m not in chosen))
    return chosen


def _from_stock(metric: StockMetric, subject: str, draw: Draw, *, terse: bool) -> dict[str, Any]:
    definition = metric.definition.format(subject=subject)
    if terse:
        first, *_, last = sentences(definition)
        definition = f"{first} {last}"
    return {
        "name": metric.name,
        "type": metric.type,
        "definition": definition,
        "examples": draw.shuffled(metric.examples),
    }
