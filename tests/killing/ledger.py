"""Which request brings which row: so that asking for what is there already shows."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from engine.benchmark import Role, Stage
from tests.killing.holdings import Holdings
from tests.protocol_server.answers import answer_to, token_count
from tests.protocol_server.request import Request
from tests.protocol_server.settings import Settings

Call = tuple[str, ...]
"""What one call is about. Two conversations that begin alike begin with the same call."""

_STAGES: Final = {
    "metrics": Stage.GEN_METRICS,
    "scenarios": Stage.GEN_SCENARIOS,
    "variant": Stage.GEN_SCENARIOS,
    "user": Stage.SIMULATE,
    "target": Stage.SIMULATE,
    "verdict": Stage.EVALUATE,
}
_TRANSCRIPT: Final = re.compile(r"<transcript-([0-9a-f]+)>\n(.*)\n</transcript-\1>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Ledger:
    """Knows the metrics and scenarios that a whole run makes, and so what a request is about."""

    whole: Holdings

    def call(self, request: Request) -> Call:
        texts = tuple(message.text for message in request.messages)
        if request.role is Role.EVALUATOR:
            return ("verdict", *_transcript(texts[1]))
        if request.role is Role.USER:
            return ("user", self._scenario(texts[0]), *self._before_user(texts))
        if request.role is Role.TARGET:
            return ("target", request.model, *texts[1:])
        title = str((request.schema or {}).get("title"))
        if title == "scenarios":
            return (
                title,
                next(metric for metric in self.whole.metrics if metric.strip() in texts[1]),
            )
        if title == "variant":
            return (title, self._scenario(texts[1]), _profile(texts[1]))
        return (title,)

    def calls(self, requests: Iterable[Request]) -> Counter[Call]:
        return Counter(self.call(request) for request in requests)

    def answered(self, held: Holdings) -> Counter[Call]:
        """The calls whose outcome is on disk."""
        return Counter(self._answered(held))

    def _answered(self, held: Holdings) -> Iterator[Call]:
        if held.metrics:
            yield ("metrics",)
        for base in held.bases:
            number = int(base.partition("_")[0].removeprefix("m"))
            yield ("scenarios", self.whole.metrics[number - 1])
        for variant, profile in held.variants:
            yield ("variant", variant.rpartition("_")[0], profile)
        for take in held.takes:
            for spoken in range(len(take.texts)):
                before = take.texts[:spoken]
                is_user = spoken % 2 == 0
                yield (
                    ("user", take.scenario, *before)
                    if is_user
                    else (
                        "target",
                        take.model,
                        *before,
                    )
                )
        for take in held.judged:
            yield ("verdict", *take.texts)

    def relied_on(self, requests: Iterable[Request]) -> set[Call]:
        """What must be on disk, because a request goes on from it."""
        found: set[Call] = set()
        for request in requests:
            match self.call(request):
                case ("scenarios", definition):
                    found.add(("metric", definition))
                case ("variant", base, _):
                    found.add(("scenario", base))
                case ("user", scenario, *said):
                    found |= {("scenario", scenario), ("said", *said)}
                case ("target", _, *said) | ("verdict", *said):
                    found.add(("said", *said))
        return found

    def _before_user(self, texts: Sequence[str]) -> tuple[str, ...]:
        """What was said so far. The last reply and what to do now come as one message."""
        if len(texts) == 2:
            return ()
        said = (text for take in self.whole.takes for text in take.texts[1::2])
        return *texts[2:-1], max((one for one in said if texts[-1].startswith(one)), key=len)

    def _scenario(self, text: str) -> str:
        """Whose persona it holds; the longest, as one may be a part of another."""
        found = [(len(persona), name) for name, persona in self.whole.personas if persona in text]
        return max(found)[1]


def stage_of(call: Call) -> Stage:
    """The stage that makes this call."""
    return _STAGES[call[0]]


def _transcript(text: str) -> tuple[str, ...]:
    found = _TRANSCRIPT.search(text)
    assert found is not None, text
    return tuple(row["content"] for row in json.loads(found.group(2)))


def _profile(text: str) -> str:
    return text.partition("<profile>\n")[2].partition("\n</profile>")[0]


def kept(held: Holdings) -> set[Call]:
    """What is on disk, in the words of `Ledger.relied_on`."""
    said = {take.texts[:number] for take in held.takes for number in range(len(take.texts) + 1)}
    return {
        *(("metric", definition) for definition in held.metrics),
        *(("scenario", name) for name in (*held.bases, *dict(held.variants))),
        *(("said", *texts) for texts in said),
    }


async def billed(request: Request) -> tuple[int, int]:
    """Input and output tokens of the whole answer."""
    answer = await answer_to(request, request.model, Settings())
    return sum(token_count(message.text) for message in request.messages), answer.tokens.output
