"""A user's own themes: a file of colours. Each theme takes the rest from a built-in one."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from textual.color import Color
from textual.theme import Theme

from engine.cli.console import out, table
from engine.config.faults import in_file_order, kind_of
from engine.config.wording import did_you_mean, quotable
from engine.config.yaml_text import KeyPath, YamlDocument, read_yaml
from engine.errors import InputError, Problem
from tui.services.preferences import THEMES_FILE, config_folder, themes_file
from tui.themes import DARK, INKS, LIGHT, NO_OWN_THEMES, PREFIX, THEMES, OwnThemes, theme_of

MOST: Final = 20
"""The most themes in one file."""
LEAST_CONTRAST: Final = 4.5
"""The least contrast ratio of text to background, from WCAG 2.1 for text of this size."""
BASES: Final = {"dark": DARK, "light": LIGHT}
GROUNDS: Final = ("text", "background", "surface", "panel")
"""Colours other than inks: of plain text, screens, dialogs and notices."""
COLOURS: Final = (*GROUNDS, *INKS)
_QUIET: Final = frozenset({"rule", "evidence"})
"""Inks whose contrast to the background is not checked: rules say nothing, and evidence has its own
background."""
_NAME: Final = re.compile(r"[a-z][a-z0-9-]{0,23}")
_COLOUR: Final = re.compile(r"#[0-9a-fA-F]{6}")


def own_themes(path: Path) -> OwnThemes:
    """Read the themes of a file. Raises `InputError` with all faults in it."""
    document = read_yaml(path)
    problems = list(_faults(document))
    if problems:
        raise InputError(in_file_order(problems))
    themes = [_theme(name, values) for name, values in document.data.items()]
    weak = {theme.name: ", ".join(too_weak(theme)) for theme in themes}
    return OwnThemes(themes, {name: words for name, words in weak.items() if words})


def _faults(document: YamlDocument) -> Iterator[Problem]:
    taken = {theme.name.removeprefix(PREFIX) for theme in THEMES}
    if len(document.data) > MOST:
        yield document.problem((), f"expected at most {MOST} themes, found {len(document.data)}")
        return
    for name, values in document.data.items():
        if not _NAME.fullmatch(name):
            what = "expected a name of up to 24 small letters, digits and `-`"
            yield document.problem((name,), what, of_key=True)
        elif name in taken:
            yield document.problem((name,), "a built-in theme has this name", of_key=True)
        elif not isinstance(values, dict):
            what = f"expected `base` and colours, found {kind_of(values)}"
            yield document.problem((name,), what, hint='`base: dark`, `accent: "#5fafaf"`')
        else:
            yield from _faults_of(document, name, values)


def _faults_of(document: YamlDocument, name: str, values: Mapping[Any, Any]) -> Iterator[Problem]:
    if values.get("base") not in BASES:
        yield document.problem((name, "base"), "expected `base: dark` or `base: light`")
    for colour, value in values.items():
        at: KeyPath = (name, colour)
        if colour == "base":
            continue
        if colour not in COLOURS:
            hint = f"{did_you_mean(str(colour), COLOURS)}; `crosswind themes` lists them"
            yield document.problem(at, "no colour has this name", hint=hint, of_key=True)
        elif not isinstance(value, str) or not _COLOUR.fullmatch(value):
            shown = f"`{quotable(value)}`" if isinstance(value, str) else kind_of(value)
            what = f"expected a colour such as `#5fafaf`, found {shown}"
            yield document.problem(at, what, hint='in quotes: "#5fafaf"; # begins a comment')


def _theme(name: str, values: Mapping[str, str]) -> Theme:
    """Build a theme. A missing colour is the base's, except that dialogs and notices follow a
    background that is given."""
    base = BASES[values["base"]]
    ground = values.get("background", base.background) or ""
    inks = {ink: values.get(ink, base.variables[f"ink-{ink}"]) for ink in INKS}
    own = "background" in values
    return theme_of(
        name,
        inks,
        foreground=values.get("text", base.foreground),
        background=ground,
        surface=values.get("surface", ground if own else base.surface),
        panel=values.get("panel", inks["cursor-idle-back"] if own else base.panel),
        dark=base.dark,
        variables={
            **{f"scrollbar{part}": ground for part in _TROUGH},
            **dict(zip(_BARS, (inks["faint"], inks["muted"], inks["accent"]), strict=True)),
        },
    )


_TROUGH: Final = ("-background", "-background-hover", "-background-active", "-corner-color")
_BARS: Final = ("scrollbar", "scrollbar-hover", "scrollbar-active")


def too_weak(theme: Theme) -> Iterator[str]:
    """Each pair with too little contrast, as `muted on background 3.1:1`."""
    ink = {name: theme.variables[f"ink-{name}"] for name in INKS}
    grounds = {"background": theme.background, "surface": theme.surface, "panel": theme.panel}
    pairs = [(name, ink[name], "background") for name in INKS if name not in _QUIET]
    pairs = [pair for pair in pairs if not pair[0].endswith("-back")]
    pairs += [("text", theme.foreground or "", ground) for ground in grounds]
    ratios = {(name, ground): contrast(colour, grounds[ground]) for name, colour, ground in pairs}
    ratios["evidence", "evidence-back"] = contrast(ink["evidence"], ink["evidence-back"])
    for ground in ("cursor-back", "cursor-idle-back"):
        ratios["text", ground] = contrast(theme.foreground, ink[ground])
    for (name, ground), ratio in ratios.items():
        if ratio < LEAST_CONTRAST:
            yield f"{name} on {ground} {ratio:.1f}:1"


def contrast(one: str | None, other: str | None) -> float:
    """The contrast ratio of two colours by WCAG 2.1, from 1 to 21."""
    low, high = sorted(_luminance(Color.parse(each or "")) for each in (one, other))
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: Color) -> float:
    """The relative luminance of WCAG 2.1."""
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in colour.normalized
    ]
    return sum(part * weight for part, weight in zip(linear, (0.2126, 0.7152, 0.0722), strict=True))


def print_themes(arguments: argparse.Namespace) -> int:
    """Print the themes and return the exit code. Raises `InputError` if the file is faulty, after
    printing the names needed to correct it."""
    del arguments
    path = themes_file(os.environ)
    wanted = config_folder(os.environ) / THEMES_FILE
    out(f"colours: {', '.join(COLOURS)}")
    out(f'for themes of your own, `NAME: {{base: dark, accent: "#5fafaf"}}` in {wanted}')
    out()
    own = NO_OWN_THEMES if path is None else own_themes(path)
    rows = [
        (
            theme.name.removeprefix(PREFIX) + " (own)" * (theme in own.themes),
            "dark" if theme.dark else "light",
            own.weak.get(theme.name, ""),
        )
        for theme in (*THEMES, *own.themes)
    ]
    out(table(("theme", "base", f"under {LEAST_CONTRAST}:1"), rows, right=frozenset()))
    return 0
