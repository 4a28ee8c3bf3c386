"""What the parts of the report are put together from: a frame with a heading, tables, names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.cli.html_report.markup import Markup, Piece, element


@dataclass(frozen=True, slots=True)
class Frame:
    """Where a part stands on the page."""

    level: int
    """Of its heading."""
    prefix: str
    """Of the ids of its parts, unique on the page."""

    def part(self, kind: str, title: str, why: str, *content: Piece) -> Markup:
        label = f"{self.prefix}-{kind}"
        return element(
            "section",
            element(f"h{self.level}", title, id=label, class_="title"),
            element("p", why, class_="why") if why else None,
            *content,
            class_=f"part {kind}",
            aria_labelledby=label,
        )

    def heading(self, title: Piece) -> Markup:
        return element(f"h{self.level + 1}", title, class_="inner")


def named(name: str) -> Markup:
    """What somebody else called something: kept apart from the text around it, whichever way it
    is written."""
    return element("span", name, class_="name")


def head(content: Piece, *, kind: str | None = None, label: str | None = None) -> Markup:
    return element("th", content, scope="col", class_=kind, aria_label=label)


def row(name: Piece, *cells: Piece) -> Markup:
    return element("tr", element("th", name, scope="row"), *cells)


def cell(*content: Piece, kind: str | None = None) -> Markup:
    return element("td", *content, class_=kind)


def value_cell(value: str, ends: str) -> Markup:
    """A figure with its interval."""
    value_said = element("span", value, class_="rate")
    return cell(value_said, " ", element("span", ends, class_="range"), kind="figure")


def sure_cell(*, real: bool, chance: str = "") -> Markup:
    return cell(
        "✓ real" if real else "· may be chance",
        element("small", chance) if chance else None,
        kind="yes" if real else "no",
    )


def table(
    caption: Piece,
    heads: Sequence[Markup | None],
    rows: Sequence[Markup],
    *,
    stacks: bool,
    kind: str | None = None,
) -> Markup:
    """A table that scrolls by itself where it is wider than the page, or, where it `stacks`, puts
    the cells of a row below each other on a narrow one."""
    name = " ".join(word for word in (kind, "stack" if stacks else None) if word)
    drawn = element(
        "table",
        element("caption", caption) if caption else None,
        element("thead", element("tr", heads)),
        element("tbody", rows),
        class_=name or None,
    )
    if stacks:
        return element("div", drawn, class_="scroll fits")
    return element(
        "div", drawn, class_="scroll", role="region", tabindex="0", aria_label="A wide table"
    )
