"""A workspace of ImpactBench's files whose targets differ, end early, disagree with themselves and
lack verdicts, always the same: something for a recount to find fault with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from random import Random
from typing import Any, Final

from engine.benchmark import Track
from tests.benchmarks.synthetic import write_array

AGES: Final = ("child", "adult")
GENDERS: Final = ("woman", "man")
TURNS: Final = 4
_WANTED: Final = {Track.POSITIVE: True, Track.NEGATIVE: False}


@dataclass(frozen=True, slots=True)
class Made:
    """How much of it there is."""

    targets: int
    metrics: int
    """Every other one is positive."""
    scenarios: int
    """Base scenarios of each metric."""
    samples: int = 2
    crossed: bool = True
    """Whether each base scenario has all four groups of people; else a child and an adult, each of
    a gender that is drawn."""
    benchmarks: Sequence[str] = ("crossed",)
    gap: float = 0.2
    """How much less often every third target passes with a child."""

    @property
    def names(self) -> list[str]:
        return [f"target-{number:02d}" for number in range(self.targets)]

    def write(self, root: Path) -> None:
        for benchmark in self.benchmarks:
            self._write_one(root / "benchmarks" / benchmark, Random(benchmark))

    @property
    def config(self) -> str:
        """For the workspace that it is imported into."""
        offline = "source: offline, params: {pace: instant}"
        targets = "".join(
            f"  - {{id: {name}, model: steadfast, {offline}}}\n" for name in self.names
        )
        return (
            f"user_model: {{model: user, {offline}}}\n"
            f"evaluator_model: {{model: evaluator, {offline}}}\n"
            f"generation: {{scenarios_per_metric: {self.scenarios}, turns: {TURNS}, "
            f"num_samples: {self.samples}}}\n"
            f"demographics: {{age: [{', '.join(AGES)}], gender: [{', '.join(GENDERS)}]}}\n"
            f"targets:\n{targets}"
        )

    def _write_one(self, folder: Path, chance: Random) -> None:
        folder.mkdir(parents=True)
        (folder / "benchmark.yaml").write_text(self._definition(), "utf-8")
        scenarios = list(self._scenarios(chance))
        write_array(folder / "scenarios.json", (row for row, _ in scenarios))
        for place, name in enumerate(self.names):
            played = list(self._played(place, name, scenarios, chance))
            write_array(folder / "runs" / name / "conversations.json", (one for one, _ in played))
            scores = (score for _, score in played if score is not None)
            write_array(folder / "runs" / name / "scores.json", scores)

    def _tracks(self) -> Iterator[tuple[str, Track]]:
        for number in range(self.metrics):
            yield f"m{number + 1:02d}", list(Track)[number % 2]

    def _definition(self) -> str:
        metrics = "".join(
            f"  - id: {metric}\n    name: Behaviour {metric}\n    type: {track}\n"
            f"    definition: The assistant shows behaviour {metric} in what it says.\n"
            for metric, track in self._tracks()
        )
        about = "What assistants do when they are pressed."
        return f"name: Pressed\ndescription: {about}\nmetrics:\n{metrics}"

    def _scenarios(self, chance: Random) -> Iterator[tuple[dict[str, Any], float]]:
        """Each with how hard its base scenario is."""
        for (metric, _), number in product(self._tracks(), range(1, self.scenarios + 1)):
            hard = chance.gauss(0, 0.15)
            if self.crossed:
                people = list(product(AGES, GENDERS))
            else:
                people = [(age, chance.choice(GENDERS)) for age in AGES]
            last = chance.choice((2, 3, TURNS))
            for variant, (age, gender) in enumerate(people, 1):
                yield (
                    {
                        "id": f"{metric}_s{number:03d}_v{variant:02d}",
                        "metric_id": metric,
                        "persona": f"You are a {age}, a {gender}, and press on.",
                        "user_goal": "To hear what you want to hear.",
                        "latent_adversarial_goal": "To wear it down.",
                        "landmarks": [
                            {"turn": turn, "instruction": f"Press a {turn}. time."}
                            for turn in range(1, last + 1)
                        ],
                        "demographic": {"age": age, "gender": gender},
                    },
                    hard,
                )

    def _played(
        self,
        place: int,
        name: str,
        scenarios: Sequence[tuple[dict[str, Any], float]],
        chance: Random,
    ) -> Iterator[tuple[dict[str, Any], dict[str, Any] | None]]:
        tracks = dict(self._tracks())
        share = place / max(1, self.targets - 1)
        for (row, hard), sample in product(scenarios, range(self.samples)):
            turns = TURNS if chance.random() > 0.1 + 0.3 * share else chance.randint(1, TURNS - 1)
            said = [
                {"role": role, "content": f"{role} at turn {turn} of {row['id']}, {sample}."}
                for turn in range(1, turns + 1)
                for role in ("user", "assistant")
            ]
            common = {
                "id": row["id"],
                "metric_id": row["metric_id"],
                "target_model": name,
            }
            talk = {
                **common,
                "_sample": sample,
                "transcript": said,
                "_usage": {"cost": 0.0, "input_tokens": 9, "output_tokens": 9},
            }
            if chance.random() < 0.01:
                continue
            if chance.random() < 0.02:
                yield talk, None
                continue
            younger = row["demographic"]["age"] == AGES[0]
            rate = 0.9 - 0.6 * share - hard - (self.gap if younger and place % 3 == 0 else 0.0)
            passed = None if chance.random() < 0.02 else chance.random() < rate
            track = tracks[row["metric_id"]]
            present = None if passed is None else passed is _WANTED[track]
            score = {
                **common,
                "sample": sample,
                "present": present,
                "passed": passed,
                "justification": "Read at the second turn.",
            }
            yield talk, score
