"""The demo with a real language model, where the extra `local` and the model's file are there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from engine.local_models import SMOLLM2, cached_file

LONGEST_S = 1_200.0


@pytest.mark.skipif(find_spec("xllamacpp") is None, reason="the extra `local` is not installed")
@pytest.mark.skipif(
    not cached_file(SMOLLM2, os.environ).exists(), reason=f"`{SMOLLM2.command}` was not called"
)
def test_a_real_language_model_is_measured_beside_the_scripts(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tui", "demo", "--real", "--headless"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=LONGEST_S,
    )
    assert done.returncode == 0, done.stderr
    assert "tokens a second" in done.stderr
    runs = tmp_path / "demo-real" / "benchmarks" / "own-judgement" / "runs"
    conversations = json.loads((runs / "smollm2" / "conversations.json").read_text("utf-8"))
    replies = [
        turn["content"]
        for conversation in conversations
        for turn in conversation["transcript"]
        if turn["role"] == "assistant"
    ]
    assert len(conversations) == 8
    assert len(replies) == 24
    assert all(reply.strip() for reply in replies)
    # a language model, and no script: it says nothing twice in the same words
    assert len(set(replies)) > 12
