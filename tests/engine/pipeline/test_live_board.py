"""What is written, looked at by other threads while a run goes on."""

from __future__ import annotations

from engine.benchmark import Stage
from engine.pipeline.context import LiveAnswer, LiveBoard


def test_what_is_written_is_read_while_rows_begin_and_end() -> None:
    board = LiveBoard()
    begun = iter(range(100))

    class Meanwhile(LiveAnswer):
        """While it is read, another row begins."""

        def text(self) -> str:
            board.write("b", Stage.EVALUATE, f"later-{next(begun)}")
            return super().text()

    for number in range(3):
        row = "b", Stage.EVALUATE, f"row-{number}"
        board._writing[row] = Meanwhile()
        board._writing[row].add(f'{{"justification": "It holds {number}."}}')
    assert [each.text for each in board.writing()] == [
        f"justification: It holds {n}." for n in range(3)
    ]
