"""The command palette: actions on this screen, places to go, and requests to the run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import partial
from typing import Any, Final

from textual.actions import parse
from textual.app import App
from textual.screen import Screen

from engine.display import one_line
from engine.people import LONGEST_PERSON
from tui.bindings import KeyAction, PaletteCommand, PaletteGroup, key_actions
from tui.screens.base import Shell, WatchingScreen
from tui.screens.dialogs import LineQuestion, LineScreen
from tui.state.related import FoundId, MetricNames, what_is
from tui.themes import PREFIX
from tui.widgets.base import Hinting, LineView

_RUN: Final = frozenset(
    {"pause", "stop", "begin", "begin_all", "concurrency", "unpark", "again", "again_all"}
)
_GO: Final = frozenset({"go", "back", "go_to", "search", "stars", "wall"})
_APP: Final = frozenset(
    {"help", "messages", "theme", "mouse", "repaint", "suspend", "leave", "zoom"}
)
_LEFT_OUT: Final = frozenset(
    {"command_palette", "focus_next", "focus_previous", "leave_root", "open"}
)
"""Actions left out because they only make sense as keys, or open the palette."""
_NAMES: Final = {
    "back": "back",
    "benchmark(-1)": "previous benchmark",
    "benchmark(1)": "next benchmark",
    "concurrency(-1)": "fewer at once",
    "concurrency(1)": "more at once",
    "confidence(1)": "unsure",
    "confidence(2)": "fairly sure",
    "confidence(3)": "sure",
    "find": "find here",
    "next_conversation": "next conversation",
    "pause_label": "pause labelling",
    "previous_conversation": "previous conversation",
    "search": "search",
    "section(-1)": "previous section",
    "section(1)": "next section",
}
"""The names of actions whose footer text is ambiguous or no name."""
_OTHER_NAMES: Final = {
    "all again": ("retry",),
    "benchmarks": ("home", "status"),
    "export": ("save", "write"),
    "go to id": ("open", "show"),
    "help": ("keys",),
    "judge again": ("evaluate", "rejudge"),
    "live": ("watch",),
    "messages": ("log", "notices"),
    "new": ("create",),
    "pause": ("resume",),
    "play again": ("simulate", "rerun"),
    "quit": ("exit", "leave"),
    "run": ("start",),
    "search": ("find",),
    "theme": ("colours", "themes"),
    "conversations": ("transcripts",),
    "what failed": ("errors", "problems", "retry"),
}
"""Further names that people type, among them those of the command line."""
_OF_A_CONVERSATION: Final = {
    "compare": "read the conversation side by side with another",
    "judge_again": "judge the conversation again, by the judge you choose",
    "play_again": "play the conversation again; this take stays",
}
"""Actions on a conversation, offered on other screens that are about one."""
_PLACE_WIDTH: Final = 40
"""The most cells of a benchmark's name behind an id."""
_CHOOSE: Final = "for a conversation, which you choose in Conversations"


def commands(app: App[Any], screen: Screen[Any]) -> list[PaletteCommand]:
    """All commands available on a screen, each name once, ordered by group."""
    panes = {type(pane): pane for pane in screen.query(LineView) if pane.can_focus}
    by_name: dict[str, PaletteCommand] = {}
    taken = {name for deed in key_actions([screen]) for name in deed.keys}
    for deed in key_actions([screen, *panes.values(), app]):
        if deed.node is app:
            # the screen's keys come first, so these do not reach the app
            deed = deed._replace(keys=[name for name in deed.keys if name not in taken])
        command = _of_deed(app, deed)
        if command is not None:
            by_name.setdefault(command.name, command)
    if isinstance(screen, WatchingScreen) and not screen.blind:
        shell = screen.shell
        of_screen = (*_of_subject(app, screen), *_named_commands(shell), *_themes(app, shell))
        for command in (*of_screen, _person(app, shell)):
            by_name.setdefault(command.name, command)
    order = list(PaletteGroup)
    return sorted(by_name.values(), key=lambda command: order.index(command.group))


def _of_deed(app: App[Any], deed: KeyAction) -> PaletteCommand | None:
    """The command of an action; None for cursor movements and for actions not possible now."""
    _, action, arguments = parse(deed.action)
    # only keys that move a cursor have no sentence of their own
    movement = deed.meaning == deed.description
    if movement or action in _LEFT_OUT or not deed.node.check_action(action, arguments):
        return None
    name = _NAMES.get(deed.action, deed.description)
    if action == "go":
        name = str(arguments[0]).lower()
    return PaletteCommand(
        _group(action),
        name,
        deed.meaning,
        " ".join(deed.keys),
        partial(app.run_action, deed.action, deed.node),
        acts_now=not (isinstance(deed.node, Hinting) and deed.node.hint(action) == ""),
    )


def _group(action: str) -> PaletteGroup:
    for group, actions in (
        (PaletteGroup.RUN, _RUN),
        (PaletteGroup.GO, _GO),
        (PaletteGroup.APP, _APP),
    ):
        if action in actions:
            return group
    return PaletteGroup.HERE


def _of_subject(app: App[Any], screen: WatchingScreen) -> Iterator[PaletteCommand]:
    """Commands for the screen's conversation that have no key on that screen. Without one, their
    names lead to the verdicts."""
    subject, navigator = screen.subject, screen.shell.navigator
    if subject is None:
        choose = partial(app.run_action, "go('Conversations')")
        for action in (*_OF_A_CONVERSATION, "definition"):
            yield PaletteCommand(
                PaletteGroup.GO, action.replace("_", " "), _CHOOSE, "", choose, acts_now=False
            )
    else:
        for action, meaning in _OF_A_CONVERSATION.items():

            def act(action: str = action) -> None:
                navigator.open_conversation(*subject)
                opened = app.screen
                opened.call_after_refresh(app.run_action, action, opened)

            yield PaletteCommand(PaletteGroup.HERE, action.replace("_", " "), meaning, "", act)


_PERSON: Final = LineQuestion(
    "Who labels and reviews here?", "your account's name", "Enter saves it", LONGEST_PERSON
)


def _person(app: App[Any], shell: Shell) -> PaletteCommand:
    choices = shell.preferences.choices

    def ask() -> None:
        app.push_screen(LineScreen(_PERSON, choices.person or ""), said)

    def said(typed: str | None) -> None:
        if typed is not None:
            name = one_line(typed).strip()
            shell.preferences.choose(replace(choices, person=name or None))
            who = name or "your account's name"
            shell.tell(f"Labels and reviews that you begin from now on are by {who}.")

    meaning = "by which name you label and review"
    return PaletteCommand(PaletteGroup.APP, "your name", meaning, "", ask)


def _named_commands(shell: Shell) -> Iterator[PaletteCommand]:
    """Commands for screens without a key everywhere, and benchmarks."""
    navigator = shell.navigator
    failures = partial(navigator.open_verdicts, "outcome:fail")
    meaning = "read every conversation that failed"
    yield PaletteCommand(PaletteGroup.GO, "failures", meaning, "", failures)
    wall = "watch as many conversations at once as there is room for"
    yield PaletteCommand(PaletteGroup.GO, "wall", wall, "", navigator.open_wall)
    benchmarks = shell.watch.benchmarks
    for info in benchmarks:
        verdicts = partial(navigator.open_verdicts, f'benchmark:"={info.name}"')
        name = f"verdicts of {one_line(info.name)}"
        yield PaletteCommand(PaletteGroup.GO, name, one_line(info.title), "", verdicts)
    blind = "label a sample without seeing the judges' verdicts"
    piloting = "see what a few conversations of each metric show"
    for info in benchmarks:
        pilot = partial(shell.engine.pilot, info.name, navigator.open_pilot)
        name = "pilot" if len(benchmarks) == 1 else f"pilot {one_line(info.name)}"
        yield PaletteCommand(PaletteGroup.RUN, name, piloting, "", pilot)
        label = partial(shell.engine.label, info.name, navigator.open_label)
        name = "label" if len(benchmarks) == 1 else f"label {one_line(info.name)}"
        yield PaletteCommand(PaletteGroup.GO, name, blind, "", label)
        decide = partial(shell.engine.adjudicate, info.name, navigator.open_disputes)
        name = name.replace("label", "adjudicate", 1)
        disagree = "decide where people disagree about a conversation"
        yield PaletteCommand(PaletteGroup.GO, name, disagree, "", decide)


def _themes(app: App[Any], shell: Shell) -> Iterator[PaletteCommand]:
    for theme in app.available_themes:
        if theme.startswith(PREFIX):
            use = partial(shell.use_theme, theme)
            name = f"theme {theme.removeprefix(PREFIX)}"
            yield PaletteCommand(PaletteGroup.APP, name, "colours", "", use)


def of_ids(ids: Iterable[FoundId], metrics: MetricNames, shell: Shell) -> list[PaletteCommand]:
    """Commands that open scenarios and conversations by id."""
    return [
        PaletteCommand(
            PaletteGroup.GO,
            one_line(found_id.id),
            what_is(found_id, metrics, _PLACE_WIDTH),
            "",
            partial(shell.navigator.open_found, found_id),
        )
        for found_id in ids
    ]


def matching(known: Sequence[PaletteCommand], typed: str) -> list[PaletteCommand]:
    """The commands that match a text, best first: by their names, then by what they do. For an
    empty text, all that would do something now."""
    words = typed.casefold().split()
    if not words:
        return [command for command in known if command.acts_now]
    ranks: Mapping[int, int | None] = {
        at: _rank(command, words) for at, command in enumerate(known)
    }
    ranked = [(rank, at) for at, rank in ranks.items() if rank is not None]
    return [known[at] for _, at in sorted(ranked)]


_OUTSIDE: Final = frozenset("calibrate doctor import init prune repair validate".split())
"""Commands of the command line for what the app does not do."""


def nothing_found(known: Sequence[PaletteCommand], typed: str) -> str:
    """What to say where nothing matches: the command that does it outside, or the nearest name."""
    word = typed.strip().casefold()
    if word in {"config", "settings"}:
        return "Settings are in config.yaml; `crosswind doctor` checks it."
    if word in _OUTSIDE:
        return f"`crosswind {word}` does this on the command line."
    names = {command.name.casefold(): command.name for command in known}
    nearest = get_close_matches(word, names, 1)
    more = f" Nearest: {one_line(names[nearest[0]])}" if nearest else ""
    return f"Nothing has that name.{more}"


def _rank(command: PaletteCommand, words: Sequence[str]) -> int | None:
    """The rank of a match: 0 if the text is its name; None without a match."""
    name, whole = command.name.casefold(), " ".join(words)
    if name == whole:
        return 0
    others = _OTHER_NAMES.get(name, ())
    if name.startswith(whole) or whole in others:
        return 1
    parts = name.replace("-", " ").split()
    if _begin(words, parts):
        return 2
    if whole in name or any(other.startswith(whole) for other in others):
        return 3
    return 4 if _begin(words, [*parts, *command.meaning.casefold().split()]) else None


def _begin(words: Sequence[str], parts: Sequence[str]) -> bool:
    """Whether each of the words begins one of the parts."""
    return all(any(part.startswith(word) for part in parts) for word in words)
