"""Makes the JSON schemas of the files that people write, for editors, and of what `--json` prints,
from their shapes: `python -m tools.schemas`, with `--write` to keep them where `crosswind init`
finds them."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from typing import Any, Final

from msgspec.json import schema_components
from pydantic import BaseModel

from engine.checks import UserAuditMode
from engine.cli.console import OUTPUT_VERSION
from engine.config.benchmark_file import OLD_TRACKS, BenchmarkShape
from engine.config.checks import ONE, SEVERAL
from engine.config.schema import Config
from engine.config.schemas import SCHEMAS
from engine.people import ReviewMode
from tools.manual.configuration import meanings
from tools.outputs import OUTPUTS

Schema = dict[str, Any]
_DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"
_OLD_NAMES: Final = {"landmarks": "pinpoint"}
"""Old names of keys, which are still taken."""


def config_schema() -> Schema:
    """Of `config.yaml`, with what is only said between its keys: judges by name, old words."""
    schema = _of_shape(Config)
    known = schema["properties"]
    judge = known[SEVERAL]["anyOf"][0]
    judge["items"] = {"anyOf": [judge["items"], {"type": "string"}]}
    schema["required"].remove(ONE)
    schema["anyOf"] = [{"required": [ONE]}, {"required": [SEVERAL]}]
    for name, old in _OLD_NAMES.items():
        known[old] = {**known[name], "deprecated": True}
    models = {
        name
        for name, shape in schema["$defs"].items()
        if "served_as" in shape.get("properties", {})
    }
    for name in models:
        shape = schema["$defs"][name]["properties"]
        shape["served_as"] = {"anyOf": [shape["served_as"], {"type": "string"}]}
        shape["extra_headers"] = _or_null(shape["extra_headers"])
    schema["$defs"]["Target"]["required"].remove("model")  # an application may have none
    pace = schema["$defs"]["Params"]["properties"]["pace"]
    pace["anyOf"] = [{"enum": ["human", "instant", None]}, {"type": "number"}]
    for mode in (ReviewMode, UserAuditMode):
        schema["$defs"][mode.__name__]["enum"].append(False)  # as YAML 1.1 reads a bare `off`
    return schema


def benchmark_schema() -> Schema:
    """Of `benchmark.yaml`."""
    schema = _of_shape(BenchmarkShape)
    metric = schema["$defs"]["MetricShape"]["properties"]
    metric["type"]["enum"] = ["positive", "negative", *OLD_TRACKS]
    return schema


def scenarios_schema() -> Schema:
    """Of `scenarios.json`; other keys are kept, as people and tools add them."""
    text = {"type": "string", "minLength": 1}
    landmark = {
        "type": "object",
        "required": ["turn", "instruction"],
        "properties": {"turn": {"type": "integer", "minimum": 1}, "instruction": text},
    }
    needed = ["id", "metric_id", "persona", "user_goal", "latent_adversarial_goal", "landmarks"]
    properties = {
        **dict.fromkeys(needed, text),
        "landmarks": {"type": "array", "items": landmark},
        "demographic": {"type": "object", "additionalProperties": {"type": ["string", "null"]}},
        "target_system_prompt": {"type": ["string", "null"]},
    }
    row = {"type": "object", "required": needed, "properties": properties}
    return {"$schema": _DRAFT, "title": "scenarios.json", "type": "array", "items": row}


def output_schema() -> Schema:
    """Of what every `--json` prints."""
    shapes, known = schema_components(OUTPUTS.values(), schema_hook=_anything)
    for part in known.values():
        if "properties" in part:
            part["additionalProperties"] = False
    return {
        "$schema": _DRAFT,
        "title": "crosswind --json",
        "type": "object",
        "required": ["shape", "version", "data"],
        "properties": {"version": {"const": OUTPUT_VERSION}},
        "oneOf": [
            {"properties": {"shape": {"const": name}, "data": shape}}
            for name, shape in zip(OUTPUTS, shapes, strict=True)
        ],
        "$defs": known,
    }


def _anything(kind: type) -> Schema:
    """As msgspec asks for what it does not know: an `object` may be anything."""
    if kind is object:
        return {"description": "any JSON"}
    raise NotImplementedError(kind)


def _of_shape(shape: type[BaseModel]) -> Schema:
    schema = shape.model_json_schema()
    shapes = {kind.__name__: kind for kind in _shapes(shape)}
    for name, part in {**schema.get("$defs", {}), shape.__name__: schema}.items():
        if name in shapes:
            _describe(part, meanings(shapes[name]))
    return {"$schema": _DRAFT, **schema}


def _shapes(shape: type[BaseModel]) -> Iterator[type[BaseModel]]:
    """Every shape of the configuration, whether this one holds it or not."""
    base = next(kind for kind in shape.__mro__ if kind.__name__ == "Shape")
    waiting = [base]
    while waiting:
        kind = waiting.pop()
        yield kind
        waiting += kind.__subclasses__()


def _describe(part: Schema, said: Mapping[str, str]) -> None:
    """Say of each key what it may be and what it is for, and take an empty section as none."""
    for name, value in part.get("properties", {}).items():
        value.pop("title", None)
        value["description"] = ". ".join(filter(None, [value.get("description"), said.get(name)]))
        if value.get("type") == "object" or "$ref" in value:
            part["properties"][name] = _or_null(value)


def _or_null(value: Schema) -> Schema:
    if "anyOf" in value:
        return value
    description = value.pop("description", "")
    return {"anyOf": [value, {"type": "null"}], "description": description}


MADE: Final = {
    "config.json": config_schema,
    "benchmark.json": benchmark_schema,
    "scenarios.json": scenarios_schema,
    "output.json": output_schema,
}


def schema_texts() -> dict[str, str]:
    """The text of each file, by name."""
    return {name: json.dumps(made(), indent=1) + "\n" for name, made in MADE.items()}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.schemas", description=__doc__)
    parser.add_argument("--write", action="store_true", help="keep them in engine/config/schemas")
    write = parser.parse_args().write
    for name, text in schema_texts().items():
        if write:
            (SCHEMAS / name).write_text(text, "utf-8")
        else:
            sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
