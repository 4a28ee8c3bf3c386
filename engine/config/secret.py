"""A key as it stands in the configuration, wrapped so that nothing shows it by accident."""

from __future__ import annotations

import re
from typing import Any, Final, NoReturn, Self, SupportsIndex

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
"""A reference to an environment variable."""


class Secret:
    """Text that may be a key, or hold one. Only `template` gives it; all else shows a mask."""

    __slots__ = ("_template",)
    _template: str

    def __init__(self, template: str) -> None:
        object.__setattr__(self, "_template", template)

    @property
    def template(self) -> str:
        """As it is written, variables not filled in."""
        return self._template

    @property
    def variables(self) -> tuple[str, ...]:
        """The environment variables it refers to."""
        return tuple(VARIABLE.findall(self._template))

    @property
    def is_reference(self) -> bool:
        """Whether it is one variable and nothing else, so that the file holds no key."""
        return VARIABLE.fullmatch(self._template.strip()) is not None

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError("a secret does not change")

    def __repr__(self) -> str:
        return "Secret(***)"

    def __str__(self) -> str:
        return "***"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._template == other._template

    def __hash__(self) -> int:
        return hash((Secret, self._template))

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError("a secret is not to be pickled")

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Read from text; written, in whatever way, as a mask."""
        return core_schema.no_info_after_validator_function(
            cls,
            core_schema.str_schema(strict=True, min_length=1),
            serialization=core_schema.plain_serializer_function_ser_schema(str),
        )
