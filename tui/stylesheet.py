"""A stylesheet that is parsed once for each set of colours.

Textual parses all of it again for a theme that is set before anything is drawn, and for each screen
that is shown for the first time since; that would be a good part of the time to the first frame.
"""

from __future__ import annotations

from textual.css.stylesheet import Stylesheet


class ParsedOnce(Stylesheet):
    """Keeps what it has parsed for as long as the colours stay the same."""

    def __init__(self, *, variables: dict[str, str]) -> None:
        super().__init__(variables=variables)
        self._parsed_with = variables

    def set_variables(self, variables: dict[str, str]) -> None:
        if variables != self._parsed_with:
            self._parsed_with = variables
            super().set_variables(variables)

    def reparse(self) -> None:
        """What is known already is not parsed again."""
        self.parse()
