"""The built-in themes: dark, light, high contrast, blue and orange instead of green and red, and
one for terminals without colours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from textual.css.stylesheet import Stylesheet
from textual.theme import Theme

PREFIX: Final = "crosswind-"
"""The prefix of the names of all our themes."""
_INKS_OF: Final = """\
ink              dark    light   contrast blue-orange terminal
strong           #eeeeee #080808 #ffffff  #eeeeee     ansi_default
muted            #9e9e9e #585858 #d0d0d0  #9e9e9e     ansi_default
faint            #8a8a8a #666666 #bcbcbc  #8a8a8a     ansi_bright_black
rule             #3a3a3a #bcbcbc #8a8a8a  #3a3a3a     ansi_bright_black
accent           #5fafaf #005f5f #00ffff  #5fd7d7     ansi_cyan
good             #87af87 #005f00 #5fff87  #5fafff     ansi_green
bad              #d7875f #af0000 #ff875f  #ff8700     ansi_red
warn             #d7af5f #765200 #ffff00  #ffffaf     ansi_yellow
user             #d7af87 #765200 #ffd75f  #d7af87     ansi_yellow
target           #87afd7 #005f87 #87d7ff  #afafd7     ansi_blue
landmark         #af87d7 #8700af #ff87ff  #d787d7     ansi_magenta
thought          #9e9e9e #585858 #d0d0d0  #9e9e9e     ansi_default
code             #afaf87 #5a5a00 #d7ff87  #afafaf     ansi_cyan
evidence         #ffd787 #5f0000 #ffff00  #ffffaf     ansi_yellow
evidence-back    #4e4e4e #d7d7af #5f00af  #4e4e4e     ansi_default
cursor-back      #303030 #d0d0d0 #00405f  #303030     ansi_default
cursor-idle-back #262626 #dadada #3a3a3a  #262626     ansi_default
"""
_ROWS: Final = [line.split() for line in _INKS_OF.splitlines()]
INKS: Final = tuple(row[0] for row in _ROWS[1:])


def _inks(theme: str) -> dict[str, str]:
    column = _ROWS[0].index(theme)
    return {row[0]: row[column] for row in _ROWS[1:]}


def theme_of(
    name: str, inks: Mapping[str, str], *, variables: Mapping[str, str], **colours: Any
) -> Theme:
    """A theme in which Textual's own widgets use the colours of our inks."""
    return Theme(
        name=PREFIX + name,
        primary=inks["accent"],
        secondary=inks["target"],
        accent=inks["accent"],
        warning=inks["warn"],
        error=inks["bad"],
        success=inks["good"],
        variables={**variables, **{f"ink-{ink}": colour for ink, colour in inks.items()}},
        **colours,
    )


def _with_scrollbar(
    theme: str, scrollbar: str, hover: str, *, background: str, **colours: Any
) -> Theme:
    inks = _inks(theme)
    variables = {
        "scrollbar": scrollbar,
        "scrollbar-hover": hover,
        "scrollbar-active": inks["accent"],
        "scrollbar-background": background,
        "scrollbar-background-hover": background,
        "scrollbar-background-active": background,
        "scrollbar-corner-color": background,
    }
    return theme_of(theme, inks, background=background, variables=variables, **colours)


DARK: Final = _with_scrollbar(
    "dark",
    "#626262",
    "#8a8a8a",
    foreground="#d0d0d0",
    background="#121212",
    surface="#1c1c1c",
    panel="#262626",
)
LIGHT: Final = _with_scrollbar(
    "light",
    "#878787",
    "#626262",
    foreground="#303030",
    background="#eeeeee",
    surface="#e4e4e4",
    panel="#dadada",
    dark=False,
)
CONTRAST: Final = _with_scrollbar(
    "contrast",
    "#8a8a8a",
    "#d0d0d0",
    foreground="#ffffff",
    background="#000000",
    surface="#121212",
    panel="#262626",
)
BLUE_ORANGE: Final = _with_scrollbar(
    "blue-orange",
    "#626262",
    "#8a8a8a",
    foreground="#d0d0d0",
    background="#121212",
    surface="#1c1c1c",
    panel="#262626",
)
"""For red-green colour blindness: good is blue and bad is orange, and they differ in lightness
too."""
SIXTEEN: Final = theme_of(
    "terminal",
    _inks("terminal"),
    variables={"ansi-background": "ansi_black", "ansi-foreground": "ansi_white"},
    **dict.fromkeys(("foreground", "background", "surface", "panel", "boost"), "ansi_default"),
    ansi=True,
)
THEMES: Final = (DARK, LIGHT, CONTRAST, BLUE_ORANGE, SIXTEEN)


def theme_for(colours: str | None) -> str:
    """The name of the first theme, by Rich's name for the terminal's colour system."""
    return SIXTEEN.name if colours in {"standard", None} else DARK.name


class CachedStylesheet(Stylesheet):
    """A stylesheet that is parsed again only when the colours change."""

    def __init__(self, *, variables: dict[str, str]) -> None:
        super().__init__(variables=variables)
        self._parsed_with = variables

    def set_variables(self, variables: dict[str, str]) -> None:
        if variables != self._parsed_with:
            self._parsed_with = variables
            super().set_variables(variables)

    def reparse(self) -> None:
        """Parse without discarding what is parsed already."""
        self.parse()
