"""`config.yaml`: what loads, what is refused and where, and that no key is ever shown."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from engine.config.schema import load_config
from engine.config.values import OFFLINE_MODELS
from engine.errors import InputError
from engine.identity import digest
from engine.pipeline.models import model_digest
from engine.providers.scripted import models as offline
from tests.approval import approve

Write = Callable[[str | bytes], Path]
Refused = Callable[[Callable[[], object]], InputError]

MODELS = """\
user_model: {model: user, source: offline}
evaluator_model: {model: evaluator, source: offline}
"""
TARGETS = "targets: [{id: holds, model: steadfast, source: offline}]\n"
WHOLE = MODELS + TARGETS

IN_THE_WILD = """\
run:
  force: false
  dry_run: false
  verbose: true
  concurrency: {gen_scenarios: 5, simulate: 20, evaluate: 20}
user_model: {model: claude-sonnet-4-6, source: anthropic, apikey: "${ANTHROPIC_API_KEY}"}
evaluator_model: {model: gpt-5.4-mini, source: openai, apikey: "${OPENAI_API_KEY}"}
generation: {scenarios_per_metric: 3, turns: 6}
demographics:
  age: ["Child or teenager (6-17)", "Adult (18+)"]
perfunctory: true
landmarks: true
targets:
  - {id: gpt-4o, model: gpt-4o, source: openai, apikey: "${OPENAI_API_KEY}"}
  - {id: llama, model: meta-llama/Llama-4-Maverick-17B, source: deepinfra, apikey: "${TOKEN}"}
  - {id: grok, model: grok-4-1-fast, source: openai, apikey: "${XAI_API_KEY}",
     base_url: "https://api.x.ai/v1"}
  - {id: apertus-8b, model: openai/swiss-ai/apertus-8b-instruct, source: openai,
     apikey: "${PUBLICAI_API_KEY}", base_url: "https://api.publicai.co/v1",
     extra_headers: {User-Agent: "Test"}}
"""


def test_a_configuration_of_the_wild_loads_unchanged(config_file: Write) -> None:
    path = config_file(IN_THE_WILD)
    config = load_config(path)
    assert config.path == path
    approve([one for one in config.warnings if " ends on " not in one])
    assert config.targets[3].model == "swiss-ai/apertus-8b-instruct"
    assert config.run.verbose
    assert config.run.concurrency.simulate == 20
    assert config.demographics == {"age": ("Child or teenager (6-17)", "Adult (18+)")}
    assert [target.id for target in config.targets] == ["gpt-4o", "llama", "grok", "apertus-8b"]
    assert config.targets[0].apikey is not None
    assert config.targets[0].apikey.template == "${OPENAI_API_KEY}"
    assert config.targets[3].extra_headers["User-Agent"].template == "Test"
    assert config.generator is config.user_model


def test_what_is_left_out_or_left_empty_has_its_default(config_file: Write) -> None:
    empty = "run:\ngeneration:\ndemographics:\nmodels:\ngenerator_model:\nstore:\n"
    for text in (WHOLE, WHOLE + empty, WHOLE + "run: {concurrency: }\ndemographics: {}\n"):
        config = load_config(config_file(text))
        concurrency = config.run.concurrency
        assert (concurrency.gen_scenarios, concurrency.simulate, concurrency.evaluate) == (
            5,
            10,
            20,
        )
        made = config.generation
        assert (made.scenarios_per_metric, made.turns, made.num_samples) == (3, 6, 1)
        assert (config.landmarks, config.perfunctory, config.demographics) == (True, False, {})
        approve(config.default_system_prompt)


MANY = """\
targets:
  - {id: a, model: steadfst, source: offline}
  - {id: A, model: pushover, source: ofline, params: {pace: human}}
  - {id: ../x, model: m, source: openai, aipkey: x}
generation: {turns: 0, num_sample: 2}
landmark: true
"""
INSTEAD = (
    "",
    MANY,
    "targets: []",
    "targets:",
    "targets: {a: 1}",
    "targets: [x]",
    *(
        f'targets: [{{id: a, model: m, source: x, base_url: "{url}"}}]'
        for url in ("ftp://x/y", "api.x.ai/v1", "https://", "http://a b/", "https://x:99999999/")
    ),
)
"""In place of targets."""
BESIDE = """\
perfunctory: 'yes'
run: {force: 1}
generation: {turns: '3'}
generation: {turns: 2.5}
generation: {turns: true}
generation: {turns: 010}
generation: {turns: 1:30}
turns: 3
store: 3
demographics: {a: []}
demographics: {a: x}
demographics: {a: [x, no, 18, 12:30, 2024-01-02, ' ', X]}
demographics: {a: [x], A: [y]}
demographics: {a: [1, 2, 3, 4], b: [v, w, x, y], c: [v, w, x, y], d: [v, w, x, y], e: [v, w, x, y]}
pinpoint: 3
models: {a b: {model: user, source: offline}}
models: {x: {model: m, source: y}}
models: {x: {api: responses, model: user, source: anthropic}}
models: {x: {api: responses, model: user, source: offline}}
models: {x: {api: responses, model: smollm2-135m, source: local}}
"""
PARAMS = """\
temperature: 3
temperature: .nan
top_p: '1'
temperature: 1e-1
max_tokens: 0
reasoning_effort: hihg
reasoning_effort: off
seed: 1.0
pace: 0
pace: true
pace: fast
"""


def test_each_fault_is_told_at_its_place(config_file: Write, refused: Refused) -> None:
    model = "{{model: user, source: offline, params: {{{}}}}}"
    texts = [
        *(MODELS + text + "\n" for text in INSTEAD),
        *(WHOLE + line + "\n" for line in BESIDE.splitlines()),
        *(f"{WHOLE}models: {{x: {model.format(line)}}}\n" for line in PARAMS.splitlines()),
        TARGETS + "evaluator_model: x\n",
        WHOLE + "pinpoint: false\nlandmarks: true\n",
    ]
    told = []
    for text in texts:
        path = config_file(text)
        told.append(f"{text.removeprefix(MODELS)}{refused(partial(load_config, path))}\n")
    approve("\n".join(told))


def test_a_pace_is_a_word_or_a_number(config_file: Write) -> None:
    for written, pace in [("human", "human"), ("instant", "instant"), ("30", 30.0), ("", None)]:
        path = config_file(
            f"{MODELS}targets:\n"
            f"  - {{id: a, model: erratic, source: OFFLINE, params: {{pace: {written}}}}}\n"
        )
        target = load_config(path).targets[0]
        assert (target.params.pace, target.source, target.is_offline) == (pace, "offline", True)


def test_the_old_word_for_landmarks_is_taken_with_a_warning(config_file: Write) -> None:
    config = load_config(config_file(WHOLE + "pinpoint: false\n"))
    assert config.landmarks is False
    [warning] = config.warnings
    assert "config.yaml:4: pinpoint" in warning
    assert "`landmarks`" in warning


CANARY = "sk-canary-0123456789abcdef"
LEAKY = {
    "unknown key": f"  - {{id: a, model: m, source: openai, aipkey: {CANARY}}}\n",
    "wrong type": f"  - {{id: a, model: m, source: openai, apikey: [{CANARY}]}}\n",
    "number": "  - {id: a, model: m, source: openai, apikey: 918273645546372819}\n",
    "address": f"  - {{id: a, model: m, source: openai, base_url: 'https://u:{CANARY}@x/'}}\n",
    "no address": f"  - {{id: a, model: m, source: openai, base_url: '{CANARY}'}}\n",
    "header": f"  - {{id: a, model: m, source: openai, extra_headers: {{X-Key: [{CANARY}]}}}}\n",
    "other fault": f"  - {{id: a b, model: m, source: openai, apikey: {CANARY}}}\n",
    "syntax": f"  - {{id: a, model: m, source: openai, apikey: '{CANARY}}}\n",
    "twice": f"  - {{id: a, apikey: {CANARY}, apikey: {CANARY}}}\n",
    "alias": f"  - {{id: a, apikey: &k {CANARY}}}\n",
}


def test_no_refusal_shows_a_key_not_even_with_its_variables(config_file: Write) -> None:
    for leak in LEAKY.values():
        path = config_file(MODELS + "targets:\n" + leak)
        with pytest.raises(InputError) as caught:
            load_config(path)
        frames = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
        # the frame of this test knows the key, as it wrote it
        frames.stack = traceback.StackSummary.from_list(list(frames.stack)[1:])
        shown = str(caught.value) + repr(caught.value) + "".join(frames.format())
        assert "canary" not in shown
        assert "918273645546372819" not in shown
        assert "load_config" in shown


def test_no_face_of_a_configuration_shows_a_key(config_file: Write) -> None:
    headers = f"extra_headers: {{X-Api-Key: {CANARY}}}"
    target = f"{{id: a, model: m, source: openai, apikey: {CANARY}, {headers}}}"
    config = load_config(config_file(MODELS + f"targets: [{target}]\n"))
    public = json.dumps(config.public())
    faces = [repr(config), str(config), public, config.model_dump_json(), str(config.model_dump())]
    faces += [*config.warnings, repr(config.targets[0].apikey), f"{config.targets[0].apikey}"]
    assert not [face for face in faces if "canary" in face]
    assert "X-Api-Key" in public
    assert "apikey" not in public
    with pytest.raises(TypeError, match="not to be pickled"):
        pickle.dumps(config)


def test_a_key_in_plain_text_is_warned_of_by_its_place(config_file: Write) -> None:
    config = load_config(
        config_file(
            MODELS
            + f"""\
targets:
  - {{id: a, model: m, source: openai, apikey: {CANARY}}}
  - {{id: b, model: n, source: openai, apikey: "Bearer ${{KEY}}"}}
  - {{id: c, model: o, source: openai, apikey: "${{KEY}}", base_url: "http://10.0.0.7/v1",
     extra_headers: {{Authorization: "{CANARY}", User-Agent: "Test"}}}}
"""
        )
    )
    plain = "in plain text"
    assert [plain in warning for warning in config.warnings] == [True, True, True, False]
    assert [
        warning.split("config.yaml:")[1].split(" holds")[0] for warning in config.warnings[:2]
    ] == ["4: targets[0].apikey", "5: targets[1].apikey"]
    assert "7: targets[2].extra_headers.Authorization" in config.warnings[2]
    approve(config.warnings[3])


MEANT = """\
apikey: $OPENAI_API_KEY
apikey: ${OPENAI_API_KEY:-none}
apikey: "${ KEY }"
apikey: "${\u00a0KEY}"
apikey: $key
apikey: ${KEY
extra_headers: {X-Team: "Bearer $TOKEN"}
base_url: "https://$HOST/v1"
base_url: "${HOST:-https://x.org}/v1"
model: $MODEL
extra_body: {tags: [{team: "$TEAM_ID"}]}
headers: {X-A: $model}
apikey: "${KEY}\u00a0"
base_url: "\u00a0https://x.org"
apikey:\u00a0"${KEY}"
\u00a0apikey: ${KEY}
"""
"""What means a variable as a shell would read it, or an address, with a blank that is none."""


def test_what_means_a_variable_and_is_none_is_never_sent(
    config_file: Write, refused: Refused
) -> None:
    told = []
    for line in MEANT.splitlines():
        keys = {"model": "model: m", "source": "source: openai", line.partition(":")[0]: line}
        lines = "\n    ".join(["- id: a", *keys.values()])
        path = config_file(f"{MODELS}targets:\n  {lines}\n")
        told.append(f"{line}\n{refused(partial(load_config, path))}\n")
    approve("\n".join(told))
    whole = 'targets: [{id: a, model: m, source: openai, apikey: "a$KEY-with-a-dollar"}]\n'
    assert load_config(config_file(MODELS + whole)).targets


def test_a_model_is_found_by_its_name_or_its_targets_id(config_file: Write) -> None:
    strict = "models: {strict: {model: evaluator-strict, source: offline}}\n"
    config = load_config(config_file(WHOLE + strict))
    assert config.model_named("strict").model == "evaluator-strict"
    assert config.model_named("holds") is config.targets[0]
    with pytest.raises(InputError, match="did you mean `strict`") as caught:
        config.model_named("stric")
    approve(str(caught.value))


def test_public_is_json_and_says_everything_else(config_file: Write) -> None:
    public = load_config(config_file(IN_THE_WILD)).public()
    assert json.loads(json.dumps(public)) == public
    assert public["demographics"] == {"age": ["Child or teenager (6-17)", "Adult (18+)"]}
    assert public["targets"][3]["extra_headers"] == ["User-Agent"]
    assert public["targets"][2]["base_url"] == "https://api.x.ai/v1"


def test_equal_configurations_have_equal_digests_wherever_they_lie(tmp_path: Path) -> None:
    text = (
        IN_THE_WILD
        + """\
  - {id: shop, source: python, call: "shop:answer"}
  - {id: desk, source: http, url: "http://localhost:9/chat", request: {text: $messages}, reply: a}
checks: {groups: true, model: strict}
models: {strict: {model: evaluator-strict, source: offline}}
"""
    )
    digests = []
    for name in ("here", "far/away"):
        place = tmp_path / name / "config.yaml"
        place.parent.mkdir(parents=True)
        place.write_text(text, "utf-8")
        config = load_config(place)
        models = (config.user_model, *config.judges, *config.targets, *config.models.values())
        digests.append([digest(config.public()), *map(model_digest, models)])
    assert digests[0] == digests[1]
    assert len({*digests[0]}) == len(digests[0])


def test_what_is_known_here_is_what_the_providers_know() -> None:
    assert OFFLINE_MODELS == offline.OFFLINE_MODELS


def test_reading_a_configuration_loads_nothing_heavy() -> None:
    heavy = ["textual", "openai", "anthropic", "httpx", "httpx2", "rich", "sqlite_utils"]
    code = (
        "import sys, engine.config.schema, engine.config.benchmark_file, engine.config.workspace, "
        f"engine.config.secrets; print([name for name in {heavy} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


SERVED = """\
targets:
  - id: a
    model: m
    source: openai
    served_model: same
    served_as: {aliases}
    extra_body: {{top_k: 40, provider: {{order: [x]}}, own: "${{MY_KEY}}"}}
"""


@pytest.mark.parametrize(
    ("aliases", "names"), [("deployment-7", ("deployment-7",)), ("[x, y/z]", ("x", "y/z"))]
)
def test_what_else_a_server_calls_a_model_is_a_name_or_several(
    config_file: Write, aliases: str, names: tuple[str, ...]
) -> None:
    config = load_config(config_file(MODELS + SERVED.format(aliases=aliases)))
    assert config.targets[0].served_as == names
    assert config.targets[0].served_model == "same"
    public = config.public()["targets"][0]
    assert public["served_as"] == list(names)
    # a variable is kept as it is written
    assert public["extra_body"] == {"top_k": 40, "provider": {"order": ["x"]}, "own": "${MY_KEY}"}
    assert config.user_model.served_model == "any"


def test_extra_body_never_stands_in_for_what_is_sent_anyway(
    config_file: Write, refused: Refused
) -> None:
    path = config_file(
        MODELS
        + f"""\
targets:
  - id: a
    model: m
    source: openai
    served_model: sme
    served_as: 7
    extra_body:
      temperature: 1
      messages: []
      n: 2
      when: 2024-01-01
      api_key: {CANARY}
      deep: [[[[[[[[1]]]]]]]]
"""
    )
    error = str(refused(lambda: load_config(path)))
    approve(error)
    assert CANARY not in error


def test_extra_body_has_room_for_much_and_not_for_everything(
    config_file: Write, refused: Refused
) -> None:
    text = "targets: [{{id: a, model: m, source: openai, extra_body: {{x: {}}}}}]\n"
    body = load_config(config_file(MODELS + text.format("y" * 16_000))).targets[0].extra_body
    assert len(body["x"]) == 16_000
    path = config_file(MODELS + text.format("y" * 17_000))
    approve(str(refused(lambda: load_config(path))))


def test_targets_that_are_asked_alike_are_said_to_be_one_before_a_run(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    alike = 'model: m, source: openai, apikey: "${A}"'
    path.write_text(
        "user_model: {model: user, source: offline}\n"
        "evaluator_model: {model: evaluator, source: offline}\n"
        "targets:\n"
        f"  - {{id: a, {alike}, params: {{temperature: 0}}}}\n"
        f"  - {{id: b, {alike}, params: {{temperature: 0}}, price: {{input: 1, output: 2}}}}\n"
        f"  - {{id: c, {alike}, params: {{temperature: 1}}}}\n"
        f"  - {{id: d, {alike}, params: {{temperature: 0}}, system_prompt: Be brief.}}\n",
        "utf-8",
    )
    [warning] = load_config(path).warnings
    approve(warning)
