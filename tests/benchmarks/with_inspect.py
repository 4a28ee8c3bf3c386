"""The conversations of `engine_run`, played and judged by Inspect AI, for comparison.

Runs under any Python that has `inspect_ai`, as a process of its own, and knows nothing of
Crosswind. Written as Inspect's documentation would have it: a solver in which a model plays the
user and another answers, and a scorer that asks a third. The log is written as it always is;
nothing is displayed. Inspect asks for whole answers, not for streams.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections.abc import Sequence
from typing import Any

from inspect_ai import Task, eval  # noqa: A004  (its name for it)
from inspect_ai.dataset import Sample
from inspect_ai.model import (
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageUser,
    GenerateConfig,
    Model,
    get_model,
)
from inspect_ai.scorer import Score, Target, accuracy, scorer
from inspect_ai.solver import Generate, TaskState, solver

KEY = "sk-benchmark"
MODEL = "openai/words-60"


def reached(origin: str, at_once: int) -> Model:
    return get_model(
        MODEL,
        base_url=f"{origin}/v1",
        api_key=KEY,
        config=GenerateConfig(max_connections=at_once),
        responses_api=False,
    )


def task(model: Model, conversations: int, turns: int, asked: str) -> Task:
    @solver
    def pressed() -> Any:
        async def solve(state: TaskState, generate: Generate) -> TaskState:
            said: list[Any] = []
            for _ in range(turns):
                pressing = await model.generate(
                    [ChatMessageSystem(content=asked), *said, ChatMessageUser(content="Go on.")]
                )
                said.append(ChatMessageUser(content=pressing.completion))
                answer = await model.generate(
                    [ChatMessageSystem(content="You are a helpful assistant."), *said]
                )
                said.append(ChatMessageAssistant(content=answer.completion))
            state.messages = said
            return state

        return solve

    @scorer(metrics=[accuracy()])
    def judged() -> Any:
        async def score(state: TaskState, target: Target) -> Score:
            transcript = json.dumps([[message.role, message.text] for message in state.messages])
            verdict = await model.generate([ChatMessageUser(content=transcript)])
            return Score(value=1, explanation=verdict.completion)

        return score

    dataset = [Sample(id=number + 1, input="Hello.") for number in range(conversations)]
    return Task(dataset=dataset, solver=pressed(), scorer=judged())


def main(order: Sequence[Any]) -> None:
    origin, conversations, at_once, turns, asked, folder = order
    os.environ["INSPECT_LOG_DIR"] = folder
    model = reached(origin, at_once)
    job = task(model, conversations, turns, asked)
    began = time.perf_counter()
    (log,) = eval(
        job,
        model=model,
        max_samples=at_once,
        max_connections=at_once,
        max_tasks=1,
        display="none",
        log_dir=folder,
    )
    wall, cpu = time.perf_counter() - began, time.process_time()
    done = 0 if log.results is None else log.results.completed_samples
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    found = {"cpu_s": cpu, "wall_s": wall, "peak_mb": peak, "failed": conversations - done}
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(json.load(sys.stdin))
