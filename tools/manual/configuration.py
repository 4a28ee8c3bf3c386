"""The keys of `config.yaml` and `benchmark.yaml`, from the shapes that check them."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, Final, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from engine.config.benchmark_file import BenchmarkShape
from engine.config.checks import ONE, SEVERAL
from engine.config.schema import Config, ModelSpec, Target, UserModel
from tools.manual.markdown import code, table

_HEADS: Final = ("key", "value", "default", "meaning")
_ONE_MODEL: Final = "a-model"
_INSTEAD: Final[Mapping[tuple[type[BaseModel], str], str]] = {
    (Config, ONE): f", or {code(SEVERAL)}"
}
"""The keys that may stand in place of a required one."""


def config_reference() -> str:
    """Every key of `config.yaml`."""
    parts = ["## The whole file", _keys(Config)]
    for name, shape in sections(Config):
        parts += [f"## `{name}`", _about(shape), _keys(shape, f"{name}.")]
    parts += [
        "## A model",
        f"{_about(ModelSpec)} So are written `user_model`, `evaluator_model`, `generator_model`, "
        "each of `evaluators` and of `models`, and each target, which has an `id` besides.",
        _keys(Target),
    ]
    parts += ["`user_model` has one key more:", _keys(UserModel, beside=ModelSpec)]
    for name, shape in sections(ModelSpec):
        parts += [f"## `{name}`", _about(shape), _keys(shape)]
    return "\n\n".join(parts)


def benchmark_reference() -> str:
    """Every key of `benchmark.yaml`."""
    parts = ["## The whole file", _keys(BenchmarkShape)]
    for name, shape in sections(BenchmarkShape):
        parts += [f"## `{name}`", _about(shape), _keys(shape, f"{name}.")]
    return "\n\n".join(parts)


def sections(shape: type[BaseModel], within: str = "") -> Iterator[tuple[str, type[BaseModel]]]:
    """The keys that have keys of their own, models left out, with the shape of what they hold."""
    for name, field in shape.model_fields.items():
        for inner in _shapes_in(field.annotation):
            if not issubclass(inner, ModelSpec):
                yield f"{within}{name}", inner
                yield from sections(inner, f"{within}{name}.")


def meanings(shape: type[BaseModel]) -> dict[str, str]:
    """What the source says below each field of a shape, those that it inherits included."""
    found: dict[str, str] = {}
    for kind in reversed(shape.__mro__):
        if not (issubclass(kind, BaseModel) and kind is not BaseModel):
            continue
        tree = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
        assert isinstance(tree, ast.ClassDef)
        for before, after in zip(tree.body, tree.body[1:], strict=False):
            match before, after:
                case (
                    ast.AnnAssign(target=ast.Name(id=name)),
                    ast.Expr(value=ast.Constant(value=str(text))),
                ):
                    found[name] = " ".join(text.split())
                case _:
                    pass
    return found


def _keys(
    shape: type[BaseModel], within: str = "", *, beside: type[BaseModel] | None = None
) -> str:
    """A table of them, those of another shape left out."""
    said = meanings(shape)
    known = beside.model_fields if beside is not None else {}
    names: Sequence[str] = [name for name in shape.model_fields if name not in known]
    if issubclass(shape, Target):
        names = sorted(names, key=lambda name: name != "id")
    fields = [(name, shape.model_fields[name]) for name in names]
    return table(
        _HEADS,
        [
            (
                _linked(name, within, field),
                field.description or "",
                _default(field) + _INSTEAD.get((shape, name), ""),
                said.get(name, ""),
            )
            for name, field in fields
        ],
    )


def _linked(name: str, within: str, field: FieldInfo) -> str:
    inner = _shapes_in(field.annotation)
    if not inner:
        return code(name)
    # all models are told of in one place
    anchor = _ONE_MODEL if issubclass(inner[0], ModelSpec) else _anchor(f"{within}{name}")
    return f"[{code(name)}](#{anchor})"


def _anchor(name: str) -> str:
    """What a heading with this name gets by itself, built and shown as a file alike."""
    return name.replace(".", "")


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "**required**"
    value = field.get_default(call_default_factory=True, validated_data={})
    match value:
        case None | () | BaseModel():
            return ""
        case dict() if not value:
            return ""
        case Enum():
            return code(str(value.value))
        case bool():
            return code(str(value).lower())
        case _:
            return code(str(value))


def _about(shape: type[BaseModel]) -> str:
    return inspect.cleandoc(shape.__doc__ or "")


def _shapes_in(annotation: Any) -> list[type[BaseModel]]:
    """The shapes that a type has in it, such as the one in a list that may be left out."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [shape for inner in get_args(annotation) for shape in _shapes_in(inner)]
