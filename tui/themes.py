"""Our own colours: dark, light, high contrast, blue and orange in place of green and red, and one
for terminals without colours."""

from __future__ import annotations

from typing import Final

from textual.css.stylesheet import Stylesheet
from textual.theme import Theme

PREFIX: Final = "crosswind-"
"""What the names of all our themes begin with."""
INKS: Final = (
    "strong",
    "muted",
    "faint",
    "rule",
    "accent",
    "good",
    "bad",
    "warn",
    "user",
    "target",
    "landmark",
    "thought",
    "code",
    "evidence",
    "evidence-back",
    "cursor-back",
    "cursor-idle-back",
)


def _variables(*colours: str) -> dict[str, str]:
    return {f"ink-{name}": colour for name, colour in zip(INKS, colours, strict=True)}


DARK: Final = Theme(
    name="crosswind-dark",
    primary="#5fafaf",
    secondary="#87afd7",
    accent="#5fafaf",
    warning="#d7af5f",
    error="#d7875f",
    success="#87af87",
    foreground="#d0d0d0",
    background="#121212",
    surface="#1c1c1c",
    panel="#262626",
    dark=True,
    variables={
        **_variables(
            "#eeeeee",
            "#949494",
            "#767676",
            "#3a3a3a",
            "#5fafaf",
            "#87af87",
            "#d7875f",
            "#d7af5f",
            "#d7af87",
            "#87afd7",
            "#af87d7",
            "#949494",
            "#afaf87",
            "#ffd787",
            "#4e4e4e",
            "#303030",
            "#262626",
        ),
        "scrollbar": "#303030",
        "scrollbar-hover": "#4e4e4e",
        "scrollbar-active": "#5fafaf",
        "scrollbar-background": "#121212",
        "scrollbar-background-hover": "#121212",
        "scrollbar-background-active": "#121212",
        "scrollbar-corner-color": "#121212",
    },
)
LIGHT: Final = Theme(
    name="crosswind-light",
    primary="#005f5f",
    secondary="#005f87",
    accent="#005f5f",
    warning="#875f00",
    error="#af0000",
    success="#005f00",
    foreground="#303030",
    background="#eeeeee",
    surface="#e4e4e4",
    panel="#dadada",
    dark=False,
    variables={
        **_variables(
            "#080808",
            "#585858",
            "#767676",
            "#bcbcbc",
            "#005f5f",
            "#005f00",
            "#af0000",
            "#875f00",
            "#875f00",
            "#005f87",
            "#875faf",
            "#585858",
            "#5f5f00",
            "#5f0000",
            "#d7d7af",
            "#d0d0d0",
            "#dadada",
        ),
        "scrollbar": "#d0d0d0",
        "scrollbar-hover": "#9e9e9e",
        "scrollbar-active": "#005f5f",
        "scrollbar-background": "#eeeeee",
        "scrollbar-background-hover": "#eeeeee",
        "scrollbar-background-active": "#eeeeee",
        "scrollbar-corner-color": "#eeeeee",
    },
)
CONTRAST: Final = Theme(
    name="crosswind-contrast",
    primary="#00ffff",
    secondary="#87d7ff",
    accent="#00ffff",
    warning="#ffff00",
    error="#ff875f",
    success="#5fff87",
    foreground="#ffffff",
    background="#000000",
    surface="#121212",
    panel="#262626",
    dark=True,
    variables={
        **_variables(
            "#ffffff",
            "#d0d0d0",
            "#bcbcbc",
            "#8a8a8a",
            "#00ffff",
            "#5fff87",
            "#ff875f",
            "#ffff00",
            "#ffd75f",
            "#87d7ff",
            "#ff87ff",
            "#d0d0d0",
            "#d7ff87",
            "#ffff00",
            "#5f00af",
            "#005f87",
            "#444444",
        ),
        "scrollbar": "#8a8a8a",
        "scrollbar-hover": "#d0d0d0",
        "scrollbar-active": "#00ffff",
        "scrollbar-background": "#000000",
        "scrollbar-background-hover": "#000000",
        "scrollbar-background-active": "#000000",
        "scrollbar-corner-color": "#000000",
    },
)
BLUE_ORANGE: Final = Theme(
    name="crosswind-blue-orange",
    primary="#5fd7d7",
    secondary="#afafd7",
    accent="#5fd7d7",
    warning="#ffffaf",
    error="#ff8700",
    success="#5fafff",
    foreground="#d0d0d0",
    background="#121212",
    surface="#1c1c1c",
    panel="#262626",
    dark=True,
    variables={
        **_variables(
            "#eeeeee",
            "#9e9e9e",
            "#808080",
            "#3a3a3a",
            "#5fd7d7",
            "#5fafff",
            "#ff8700",
            "#ffffaf",
            "#d7af87",
            "#afafd7",
            "#d787d7",
            "#9e9e9e",
            "#afafaf",
            "#ffffaf",
            "#4e4e4e",
            "#303030",
            "#262626",
        ),
        "scrollbar": "#303030",
        "scrollbar-hover": "#4e4e4e",
        "scrollbar-active": "#5fd7d7",
        "scrollbar-background": "#121212",
        "scrollbar-background-hover": "#121212",
        "scrollbar-background-active": "#121212",
        "scrollbar-corner-color": "#121212",
    },
)
"""For eyes to which red and green are one: what is good is blue, what is bad is orange, and they
differ in lightness as well."""
SIXTEEN: Final = Theme(
    name="crosswind-terminal",
    primary="ansi_cyan",
    secondary="ansi_blue",
    accent="ansi_cyan",
    warning="ansi_yellow",
    error="ansi_red",
    success="ansi_green",
    foreground="ansi_default",
    background="ansi_default",
    surface="ansi_default",
    panel="ansi_default",
    boost="ansi_default",
    ansi=True,
    variables={
        "ansi-background": "ansi_black",
        "ansi-foreground": "ansi_white",
        **_variables(
            "ansi_default",
            "ansi_default",
            "ansi_bright_black",
            "ansi_bright_black",
            "ansi_cyan",
            "ansi_green",
            "ansi_red",
            "ansi_yellow",
            "ansi_yellow",
            "ansi_blue",
            "ansi_magenta",
            "ansi_default",
            "ansi_cyan",
            "ansi_yellow",
            "ansi_default",
            "ansi_default",
            "ansi_default",
        ),
    },
)
THEMES: Final = (DARK, LIGHT, CONTRAST, BLUE_ORANGE, SIXTEEN)


def theme_for(colours: str | None) -> str:
    """The name of the theme to begin with, by Rich's name for what the terminal can show."""
    return SIXTEEN.name if colours in {"standard", None} else DARK.name


class CachedStylesheet(Stylesheet):
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
