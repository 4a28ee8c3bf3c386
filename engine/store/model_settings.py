"""What models were asked with, for whoever reads or publishes results."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from engine.benchmark import Role
from engine.store.reader import Reader
from engine.store.tables import CheckRow, Depends, StoredTake, Verdict

Settings = Mapping[str, Any]
"""Parameters by name, None where the provider decides; of a target also `system_prompt`, of a user
model `form`. `left_out` lists those that were not sent after a server had refused them."""

LEFT_OUT: Final = "left_out"
SYSTEM_PROMPT: Final = "system_prompt"
_SHOWN_OF_A_PROMPT: Final = 60
_NOTHING: Final = "all parameters left to the provider"
_OF_A_SCENARIO: Final = {SYSTEM_PROMPT: "(the scenario's own)"}


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """The settings of one benchmark's calls, by the digests that its rows record. None for a row
    that records none, or one of a store from before they were stored; and for scripts."""

    _known: Mapping[str, Settings]
    _left_out: Mapping[tuple[Role, str, str | None], Sequence[str]]

    @classmethod
    def of(cls, reader: Reader, benchmark: str) -> Self:
        """Raises `StoreError`."""
        known = {row.digest: row.settings for row in reader.model_settings()}
        return cls(known, reader.left_out(benchmark))

    def of_take(self, take: StoredTake) -> dict[str, Settings]:
        """By `target` and `user_model`, as far as they are known."""
        depends = take.depends or {}
        target = self._of(depends, "target", Role.TARGET, take.model, take.key.target_id)
        user = self._of(depends, "user model", Role.USER, take.user_model)
        found: dict[str, Settings] = {}
        if target is not None:
            prompt = self._known.get(depends.get("system prompt", ""), _OF_A_SCENARIO)
            found["target"] = {**target, **prompt}
        if user is not None:
            found["user_model"] = {**user, "form": take.form.value}
        return found

    def of_verdict(self, verdict: Verdict) -> Settings | None:
        return self._of(verdict.depends or {}, "evaluator", Role.EVALUATOR, verdict.judge)

    def of_check(self, check: CheckRow) -> Settings | None:
        return self._of(check.depends or {}, "checker", Role.CHECKER, check.model)

    def _of(
        self, depends: Depends, name: str, role: Role, label: str, target: str | None = None
    ) -> Settings | None:
        settings = self._known.get(depends.get(name, ""))
        left_out = self._left_out.get((role, label, target), ())
        return None if settings is None else {**settings, LEFT_OUT: list(left_out)}


def requested(settings: Settings) -> Settings:
    """The settings that were sent: whether nobody configured one or a server refused it, the
    provider decides."""
    missing = {LEFT_OUT, *settings.get(LEFT_OUT, ())}
    return {
        name: value for name, value in settings.items() if name not in missing and value is not None
    }


def settings_words(settings: Settings) -> str:
    """`temperature 0.2, seed 7, the rest left to the provider; left out after a refusal: seed`."""
    named = [
        f"{name.replace('_', ' ')} {_value_words(value)}"
        for name, value in settings.items()
        if name not in {LEFT_OUT, SYSTEM_PROMPT} and value is not None
    ]
    prompt = settings.get(SYSTEM_PROMPT)
    if prompt:
        cut = "…" if len(prompt) > _SHOWN_OF_A_PROMPT else ""
        named.append(f"system prompt “{prompt[:_SHOWN_OF_A_PROMPT].strip()}{cut}”")
    elif prompt == "":
        named.append("no system prompt")
    words = ", ".join([*named, "the rest left to the provider"]) if named else _NOTHING
    left_out = settings.get(LEFT_OUT)
    return words + (f"; left out after a refusal: {', '.join(left_out)}" if left_out else "")


def _value_words(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
