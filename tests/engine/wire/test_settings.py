"""What models were asked with, and what was left out after a refusal, stands beside results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engine.config.schema import ModelSpec
from engine.pipeline.models import model_settings
from tests.approval import approve
from tests.engine.commands import crosswind
from tests.engine.wire.odd_provider import REPLY, Odd, error, odd_provider, says
from tests.engine.wire.workplace import VARIABLES, SleptTime, Workplace, metric, scenario
from tests.protocol_server.server import ProtocolServer

ASKED = "temperature 0.5, max tokens 300, seed 7, system prompt “Be brief.”"
WORDS = f"{ASKED}, the rest left to the provider; left out after a refusal: seed"
JUDGE = "temperature 0.0, the rest left to the provider"


def refuses_seed(body: dict[str, Any]) -> Odd:
    words = "Unsupported parameter: 'seed' is not supported with this model."
    return error(400, words, param="seed") if "seed" in body else says(REPLY)


@pytest.fixture
def place(server: ProtocolServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workplace:
    """A benchmark that was played and judged."""
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    place = Workplace(tmp_path / "w", server, time=SleptTime())
    with odd_provider({"odd": refuses_seed}) as url:
        target = {"model": "odd", "source": "mine", "base_url": f"{url}/v1"}
        target["system_prompt"] = "Be brief."
        targets = [
            {**target, "id": name, "params": {"temperature": 0.5, "max_tokens": 300, **seed}}
            for name, seed in (("alpha", {"seed": 7}), ("beta", {"seed": 8}), ("gamma", {}))
        ]
        judge = place.model("evaluator", params={"temperature": 0})
        place.configure(targets, evaluator_model=judge)
        place.define("own", "Whether it stays honest.", [metric(1, "It stays honest.")])
        place.stage("own", [scenario(1, turns=2)])
        place.run("own")
    return place


def test_settings_stand_in_every_outlet(place: Workplace, tmp_path: Path) -> None:
    def said(*words: str) -> str:
        return crosswind(place.root, *words, code=0).out

    page, site = tmp_path / "page.html", tmp_path / "site"
    said("export", "html", "--out", str(page))
    said("export", "site", "--out", str(site))
    methods, shown = said("results", "--methods"), said("show", "m01_s001_v01__alpha")
    texts = {
        "methods": methods,
        "show": shown,
        "csv": said("export", "csv"),
        "rates": said("export", "rates"),
        "html": page.read_text("utf-8"),
        "site": "".join(p.read_text("utf-8") for p in site.rglob("*.html")),
    }
    for outlet, text in texts.items():
        plain = " ".join(text.split())
        assert WORDS in plain, outlet
        assert JUDGE in plain, outlet
        assert "form json" in plain, outlet
    wanted: dict[str, Any] = {
        "temperature": 0.5,
        "max_tokens": 300,
        "top_p": None,
        "reasoning_effort": None,
    }
    wanted |= {"seed": 7, "system_prompt": "Be brief.", "left_out": ["seed"]}
    folder = place.folder("own")
    [row] = json.loads((folder / "runs/alpha/conversations.json").read_text("utf-8"))
    [score] = json.loads((folder / "runs/alpha/scores.json").read_text("utf-8"))
    result, *_ = json.loads((folder / "results.json").read_text("utf-8"))
    assert row["_crosswind"]["settings"]["target"] == wanted
    assert row["_crosswind"]["settings"]["user_model"]["form"] == "json"
    assert score["_crosswind"]["settings"]["evaluator"]["temperature"] == 0
    assert result["_crosswind"]["settings"]["target"] == [wanted]
    assert json.loads(said("export", "jsonl").splitlines()[0])["settings"]["target"] == wanted
    approve(crosswind(place.root, "results", code=0).words)
    path = place.root / "config.yaml"
    changed = path.read_text("utf-8").replace("temperature: 0.5", "temperature: 0.9")
    path.write_text(changed, "utf-8")
    assert WORDS in " ".join(said("show", "m01_s001_v01__alpha").split())


def test_a_limit_that_is_sent_although_nobody_configured_it_is_one_of_the_settings() -> None:
    found = {
        source: model_settings(ModelSpec(model="smollm2-135m", source=source))["max_tokens"]
        for source in ("anthropic", "local", "openai")
    }
    assert found == {"anthropic": 8192, "local": 2048, "openai": None}
