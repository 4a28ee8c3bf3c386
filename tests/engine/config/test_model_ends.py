"""Names of models that end: the table is what the pinned clients say, and a configuration with one
of them says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.config.checks import TABLE, ModelEnd, model_end
from engine.config.schema import load_config
from tools.model_ends import anthropic_ends, lines, openai_ends

CONFIG = """\
user_model: {model: user, source: offline}
evaluator_model: {model: claude-sonnet-4-5, source: anthropic, apikey: "${ANTHROPIC_API_KEY}"}
targets:
  - {id: one, model: gpt-4o, source: OpenAI, apikey: "${OPENAI_API_KEY}"}
  - {id: two, model: gpt-4o, source: openai, base_url: "https://here.example/v1"}
  - {id: three, model: gpt-4o-long-after, source: openai, apikey: "${OPENAI_API_KEY}"}
"""


def test_the_table_is_what_the_pinned_clients_say() -> None:
    """`python -m tools.model_ends --write` brings it up to date."""
    assert TABLE.read_text("utf-8") == "\n".join([*lines(), ""])


def test_names_are_read_from_sentences_and_from_a_constant() -> None:
    said = '''A = 1
"""Deprecated values:

- "a-1", "a-2",
  "a-3": Announced shutdown date:
  2027-01-14. See the page for
  details.
- "b": Not a supported model ID.
"""
'''
    days = {name: str(day) for name, day in openai_ends(said).items()}
    assert days == dict.fromkeys(["a-1", "a-2", "a-3"], "2027-01-14")
    constant = 'DEPRECATED_MODELS: dict[str, str] = {"c": "June 1st, 2026", "d": "May 22nd, 2027"}'
    days = {name: str(day) for name, day in anthropic_ends(constant).items()}
    assert days == {"c": "2026-06-01", "d": "2027-05-22"}
    with pytest.raises(LookupError, match="no DEPRECATED_MODELS any more"):
        anthropic_ends("")


def test_a_configuration_says_which_of_its_models_end(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(CONFIG, "utf-8")
    end = model_end("openai", "gpt-4o")
    assert end == ModelEnd("2027-01-14", "openai 3.52.0")
    told = [warning.removeprefix(f"{path}:") for warning in load_config(path).warnings]
    after = "what it has said cannot be played again after that"
    assert sorted(told) == [
        f"2: evaluator_model.model ends on 2026-11-30, as anthropic 2.11.0 says: {after}",
        f"4: targets[0].model ends on 2027-01-14, as openai 3.52.0 says: {after}",
    ]
