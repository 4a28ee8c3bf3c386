"""What a screen may ask of the app around it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from engine.benchmark import ConversationKey
from engine.link import Answer, Board, Request
from engine.pipeline.order import Order, PricedOrder
from tui.services.preferences import Choices
from tui.services.ticker import Watching

if TYPE_CHECKING:
    from engine.pipeline.report import Report
    from tui.services.preferences import Views


@runtime_checkable
class Shell(Protocol):
    """The app, as its screens see it. Nothing here waits for anything."""

    @property
    def listeners(self) -> set[Watching]:
        """Screens that hear of facts, whether they are shown or not."""
        ...

    @property
    def board(self) -> Board | None:
        """As of the last look; None where no engine is known."""
        ...

    @property
    def engine_is_at_work(self) -> bool:
        """Whether there is an engine that takes commands."""
        ...

    def draw(self, screen: Watching) -> None:
        """Have a screen that comes up draw what is known, without waiting for the next look."""
        ...

    def ask(self, request: Request, then: Callable[[Answer], None] | None = None) -> None:
        """Ask the engine, away from the screen's loop. What it says is shown; where `then` is
        given, it is called with the answer instead, and with a refusal where nobody could be asked.
        Where none is at work, one is started for what is work."""
        ...

    def start_engine(
        self,
        order: Order,
        request: Request | None = None,
        then: Callable[[Answer], None] | None = None,
    ) -> None:
        """Have an engine work on this where none is at work; `request` is what led to it."""
        ...

    def cost(self, order: Order) -> PricedOrder | None:
        """What it would call and cost; None where nothing is paid for. It takes a while: not for
        the screen's loop. Raises `CrosswindError`."""
        ...

    def make_benchmark(self, name: str) -> None:
        """Make a benchmark in the workspace, with a file to describe it in."""
        ...

    def tell(self, text: str, *, bad: bool = False) -> None:
        """Show a notice, whoever its text is from."""
        ...

    @property
    def choices(self) -> Choices:
        """What a person chose, here or the last time."""
        ...

    def choose(self, choices: Choices) -> None:
        """Keep these for the next time."""
        ...

    @property
    def views(self) -> Views:
        """What a person set up for this workspace, here or the last time."""
        ...

    def keep_views(self, views: Views) -> None:
        """Keep these for the next time that it is opened."""
        ...

    def go(self, name: str) -> None:
        """Go to one of the places."""
        ...

    def back(self) -> None:
        """Back to where one came from."""
        ...

    def open_conversation(self, benchmark: str, key: ConversationKey) -> None: ...

    def open_scenario(self, benchmark: str, scenario_id: str) -> None: ...

    def open_verdicts(self, typed: str) -> None:
        """Those that a filter line holds, over what is shown."""
        ...

    def report(self, benchmark: str) -> Report:
        """What its verdicts say now. It takes a while: not for the screen's loop. Raises
        `CrosswindError`."""
        ...
