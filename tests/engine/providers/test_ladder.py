"""What a refusal teaches, and what it does not."""

from __future__ import annotations

import pytest

from engine.providers.attempts import Cause, Failure
from engine.providers.capabilities import (
    BOUNDS,
    FOLDED_SYSTEM,
    Adaptation,
    InMemoryCapabilities,
    ModelCapabilities,
    Step,
    adaptation_from,
    form_in_words,
    refused_setting,
)
from engine.stages.answers import schema_of
from engine.stages.evaluate import judgement_schema
from engine.stages.gen_metrics import GeneratedMetrics
from engine.stages.gen_scenarios import GeneratedScenarios
from tests.approval import approve

ALL = (Step.JSON_SCHEMA, Step.JSON_OBJECT, Step.PROMPT)
SENT = frozenset(
    {"model", "messages", "system", "temperature", "max_tokens", "seed", "stream_options", BOUNDS}
)


def taught(
    message: str,
    *,
    param: str = "",
    status: int = 400,
    learned: ModelCapabilities | None = None,
    steps: tuple[Step, ...] = ALL,
    shaped: bool = False,
    sent: frozenset[str] = SENT - {BOUNDS},
) -> Adaptation | None:
    failure = Failure(Cause.STATUS, message, status, param=param)
    return adaptation_from(
        failure,
        learned or ModelCapabilities(),
        sent=sent,
        steps=steps,
        shaped=shaped,
    )


@pytest.mark.parametrize(
    ("message", "param", "name"),
    [
        ("Unsupported parameter: 'temperature' is not supported", "temperature", "temperature"),
        ("temperature: this parameter is not supported with this model", "", "temperature"),
        (
            "Unsupported parameter: 'max_tokens' is not supported. Use 'max_completion_tokens'.",
            "max_tokens",
            "max_tokens",
        ),
        ("body.seed: Extra inputs are not permitted", "", "seed"),
        ("Unknown parameter: 'stream_options.include_usage'", "", "stream_options"),
        ("nope", "stream_options.include_usage", "stream_options"),
    ],
)
def test_a_named_parameter_is_left_out(message: str, param: str, name: str) -> None:
    found = taught(message, param=param)
    assert found is not None
    assert found.learned.dropped == {name}
    assert found.certain
    assert name in found.note


@pytest.mark.parametrize(
    "message",
    [
        "temperature must be between 0 and 2",
        "max_tokens is too large: the maximum is 4096",
        "Unsupported value: 'temperature' does not support 0.5 with this model. Only the default "
        "(1) value is supported.",
        "`temperature` may only be set to 1 when thinking is enabled.",
        "o9 models don't support temperature=0.5. Only temperature=1 is supported.",
        "Unsupported parameter: 'top_k'",
        "the temperature_scale is unknown",
        "something else",
    ],
)
def test_a_bad_value_or_a_name_that_was_not_sent_is_no_lesson(message: str) -> None:
    assert taught(message) is None


@pytest.mark.parametrize(
    ("message", "param", "name"),
    [
        ("Unexpected keys in the request: {'top_k'}", "", "top_k"),
        ("body.provider Extra inputs are not permitted", "", "provider"),
        ("Unknown parameter: 'provider'.", "provider", "provider"),
        ("nope", "provider.order", "provider"),
        ("top_k must be -1 (disable), or at least 1, got 0.", "", "top_k"),
        ("temperature must be between 0 and 2", "", "temperature"),
        (
            "Unsupported value: 'temperature' does not support 0.5 with this model. Only the "
            "default (1) value is supported.",
            "",
            "temperature",
        ),
        ("`temperature` may only be set to 1 when thinking is enabled.", "", "temperature"),
        ("o9 don't support temperature=0.5. Only temperature=1 is supported.", "", "temperature"),
        ("output_config.effort: Input should be 'low' or 'high'", "", "reasoning_effort"),
        ("Unsupported value: 'minimal' is no `reasoning_effort` here", "", "reasoning_effort"),
        ("Unsupported: the provider is unknown", "", None),
        ("Provider returned error: unknown", "", None),
        ("top_k", "", None),
        ("Unknown parameter: 'min_p'", "min_p", None),
    ],
)
def test_a_setting_of_the_configuration_is_refused_by_its_name(
    message: str, param: str, name: str | None
) -> None:
    settings = ("top_k", "provider", "temperature", "reasoning_effort")
    for status in (400, 422):
        assert refused_setting(Failure(Cause.STATUS, message, status, param=param), settings) == (
            name
        )
    assert refused_setting(Failure(Cause.STATUS, message, 500, param=param), settings) is None


def test_structured_output_goes_down_step_by_step() -> None:
    found = taught("'response_format' of type 'json_schema' is not supported", shaped=True)
    assert found is not None
    assert (found.learned.step, found.certain) == (Step.JSON_OBJECT, True)
    found = taught("response_format?", param="response_format", shaped=True, learned=found.learned)
    assert found is not None
    assert found.learned.step is Step.PROMPT
    assert taught("response_format?", shaped=True, learned=found.learned) is None


def test_a_bound_that_is_refused_is_left_out_before_the_whole_schema_is() -> None:
    refusal = "Invalid schema for response_format 'x': In context=(), 'minItems' is not permitted."
    found = taught(refusal, param="response_format", shaped=True, sent=SENT)
    assert found is not None
    assert (found.learned, found.certain) == (ModelCapabilities(dropped=frozenset({BOUNDS})), True)
    approve(found.note)
    found = taught(refusal, param="response_format", shaped=True, learned=found.learned, sent=SENT)
    assert found is not None
    assert found.learned.step is Step.JSON_OBJECT


def test_a_schema_that_is_refused_without_a_reason_is_tried_without_its_bounds_first() -> None:
    found = taught("Bad request", shaped=True, sent=SENT)
    assert found is not None
    assert found.learned.dropped == {BOUNDS}
    assert not found.certain
    found = taught("Bad request", shaped=True, learned=found.learned)
    assert found is not None
    assert found.learned.step is Step.PROMPT


def test_the_form_in_words_names_every_field_and_its_kind() -> None:
    approve(form_in_words(schema_of(GeneratedScenarios)))
    approve(form_in_words(schema_of(GeneratedMetrics)))
    approve(form_in_words(judgement_schema(1)))


def test_a_protocol_without_json_objects_goes_straight_to_the_prompt() -> None:
    found = taught(
        "output_config.format: not supported", shaped=True, steps=(Step.JSON_SCHEMA, Step.PROMPT)
    )
    assert found is not None
    assert found.learned.step is Step.PROMPT


def test_a_refusal_without_a_reason_is_a_guess() -> None:
    found = taught("Bad request", shaped=True)
    assert found is not None
    assert not found.certain
    assert taught("Bad request") is None


def test_a_refusal_without_a_reason_is_asked_differently_once_and_no_more() -> None:
    found = taught("Bad request", shaped=True)
    assert found is not None
    assert found.learned.step is Step.PROMPT
    assert taught("Bad request", shaped=True, learned=found.learned) is None


def test_a_router_without_a_match_for_the_parameters_is_asked_for_less() -> None:
    found = taught(
        "No endpoints found that support the provided 'parameters'", status=404, shaped=True
    )
    assert found is not None
    assert found.learned.step is Step.JSON_OBJECT


def test_a_template_without_a_system_role_is_remembered() -> None:
    found = taught("System role not supported")
    assert found is not None
    assert found.learned.dropped == {FOLDED_SYSTEM}
    assert taught("System role not supported", learned=found.learned) is None


def test_a_server_that_breaks_on_the_form_teaches_as_one_that_refuses_it() -> None:
    broken = "[{'loc': ('body', 'response_format'), 'input': {'temperature': 1, 'max_tokens': 9}}]"
    found = taught(broken, status=500, shaped=True)
    assert found is not None
    assert (found.learned, found.certain) == (ModelCapabilities(Step.JSON_OBJECT), True)
    assert taught(broken, status=500) is None
    assert taught("it broke", status=500, shaped=True) is None
    assert taught(broken, status=503, shaped=True) is None


@pytest.mark.parametrize("status", [401, 404, 429, 500])
def test_other_failures_teach_nothing(status: int) -> None:
    assert taught("temperature is not supported", status=status, shaped=True) is None


def test_what_two_calls_learned_adds_up() -> None:
    both = ModelCapabilities(Step.JSON_OBJECT, frozenset({"seed"})) | ModelCapabilities(
        dropped=frozenset({"top_p"})
    )
    assert both == ModelCapabilities(Step.JSON_OBJECT, frozenset({"seed", "top_p"}))


def test_what_is_not_remembered_is_the_most() -> None:
    assert InMemoryCapabilities().recall("new") == ModelCapabilities(Step.JSON_SCHEMA, frozenset())


def test_what_is_left_out_already_is_no_lesson_again() -> None:
    message = "Unsupported parameter: 'temperature' is not supported with this model."
    found = taught(message)
    assert found is not None
    assert taught(message, learned=found.learned) is None
