"""`evaluators` and `evaluation`: several judges, each asked once or more often."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from engine.cli.session import offered_judges
from engine.config.schema import load_config
from engine.config.secrets import Environment
from engine.errors import InputError
from engine.jury import Jury
from tests.approval import approve

Write = Callable[[str | bytes], Path]
Refused = Callable[[Callable[[], object]], InputError]

REST = """\
user_model: {model: user, source: offline}
targets: [{id: holds, model: steadfast, source: offline}]
models: {strict: {model: evaluator-strict, source: offline}}
"""


def test_one_evaluator_is_a_jury_of_one(config_file: Write) -> None:
    config = load_config(config_file(REST + "evaluator_model: {model: m, source: openai}\n"))
    assert config.jury == Jury(("m",), passes=1)
    assert config.judges == (config.evaluator_model,)


def test_judges_are_written_out_or_named(config_file: Write) -> None:
    given = "evaluators: [strict, {model: m, source: openai}, holds]\nevaluation: {passes: 3}\n"
    config = load_config(config_file(REST + given))
    assert config.jury == Jury(("offline:evaluator-strict", "m", "offline:steadfast"), passes=3)
    assert config.evaluator_model == config.models["strict"]
    assert [one["model"] for one in config.public()["evaluators"]] == [
        "evaluator-strict",
        "m",
        "steadfast",
    ]


def test_a_models_name_stays_as_it_is_written_but_that_of_a_script(config_file: Write) -> None:
    """A name may hold what is secret, and is stored; it is looked up when the model is called."""
    named = "{model: '${NAME}', source: openai}"
    path = config_file(
        f"user_model: {named}\nevaluators: [{named}, strict, other]\ngenerator_model: {named}\n"
        f"targets: [{{id: a, model: 'x/${{NAME}}', source: openai}}]\n"
        "models:\n  strict: {model: '${STRICT}', source: offline}\n"
        "  other: {model: '${NOT_SET}', source: openai}\n"
    )
    variables = {"NAME": "m", "STRICT": "evaluator-strict"}
    config = load_config(path, environment=Environment(path.parent, variables))
    models = (config.user_model, config.generator, *config.judges, *config.targets)
    name = "${NAME}"
    names = [name, name, name, "offline:evaluator-strict", "${NOT_SET}", f"x/{name}"]
    assert [model.label for model in models] == names
    error = refused_by(path, Environment(path.parent, {"STRICT": "no-such-script"}))
    approve(error)


def refused_by(path: Path, environment: Environment) -> str:
    with pytest.raises(InputError) as refusal:
        load_config(path, environment=environment)
    return str(refusal.value)


def test_two_judges_of_one_name_are_refused_however_it_is_written(config_file: Write) -> None:
    script = "{model: evaluator-strict, source: offline}"
    path = config_file(f"{REST}evaluators: [{script}, {{model: '${{NAME}}', source: offline}}]\n")
    told = refused_by(path, Environment(path.parent, {"NAME": "evaluator-strict"}))
    approve(told)


def test_every_judge_speaks_at_the_pace_that_is_asked_for(config_file: Write) -> None:
    config = load_config(config_file(REST + "evaluators: [strict]\n")).at_pace("instant")
    assert [judge.params.pace for judge in config.judges] == ["instant"]


def test_who_is_under_test_is_not_offered_as_a_judge(config_file: Write) -> None:
    config = load_config(config_file(REST + "evaluator_model: {model: m, source: openai}\n"))
    assert [one.name for one in offered_judges(config)] == ["strict"]


def test_scripts_of_other_roles_are_not_offered_as_judges(config_file: Write) -> None:
    models = "user_model: {model: user, source: offline}\n"
    models += "targets: [{id: holds, model: steadfast, source: offline}]\n"
    models += "evaluator_model: {model: m, source: openai}\n"
    models += "models:\n  blunt: {model: user-blunt, source: offline}\n"
    models += "  strict: {model: evaluator-strict, source: offline}\n"
    models += "  real: {model: other, source: openai}\n"
    config = load_config(config_file(models))
    assert [one.name for one in offered_judges(config)] == ["strict", "real"]


def test_who_took_part_in_the_conversations_is_offered_last_and_says_why(
    config_file: Write,
) -> None:
    rest = """\
user_model: {model: p, source: openai}
generator_model: {model: w, source: openai}
evaluator_model: {model: r, source: openai}
targets: [{id: holds, model: steadfast, source: offline}]
models:
  writer: {model: w, source: openai}
  player: {model: p, source: openai}
  reader: {model: r, source: openai}
  other: {model: o, source: openai}
  blunt: {model: user-blunt, source: offline}
  strict: {model: evaluator-strict, source: offline}
"""
    found = offered_judges(load_config(config_file(rest)))
    approve([(one.name, one.part) for one in found])


STRICT = "evaluators: [strict]\n"
FAULTY = (
    "",
    "evaluators:\n",
    "evaluators: []\n",
    "evaluators: strict\n",
    "evaluators: [strickt]\n",
    STRICT + "evaluator_model: {model: evaluator, source: offline}\n",
    "evaluators: [strict, {model: evaluator-strict, source: offline}]\n",
    "evaluators: [strict, {model: evaluatr, source: offline}]\n",
    STRICT + "evaluation: {passes: 0}\n",
    STRICT + "evaluation: {passes: 10}\n",
)


def test_a_mistake_is_said_once_and_where_it_stands(config_file: Write, refused: Refused) -> None:
    told = []
    for given in FAULTY:
        path = config_file(REST + given)
        error = refused(partial(load_config, path))
        assert len(error.problems) == 1, str(error)
        told.append(str(error).replace(f"{path}", "config.yaml"))
    approve("\n".join(told))


def test_a_fault_of_a_named_model_is_told_where_the_model_is_written(
    config_file: Write, refused: Refused
) -> None:
    rest = REST.replace("source: offline}}", "sauce: offline}}")
    path = config_file(rest + "evaluators: [strict]\n")
    error = refused(lambda: load_config(path))
    assert {problem.key for problem in error.problems} == {
        "models.strict.source",
        "models.strict.sauce",
    }
