"""What holds a run up is said when it begins, at growing intervals, and when it ends."""

from __future__ import annotations

from dataclasses import replace

from engine.link import Board, EngineState, PauseNews, Wait

RUNS = Board(EngineState.RUNNING, ())
FULL = replace(RUNS, state=EngineState.PAUSED, problem="the disk is full; free some space on /")
PARKED = replace(RUNS, parked={"holds": "401: a wrong key"})
LIMITED = replace(RUNS, waits=(Wait("gpt", "429: rate limit", 12.0, 3),))
ASKED = replace(RUNS, state=EngineState.PAUSED, question="go on?")
BY_A_PERSON = replace(RUNS, state=EngineState.PAUSED)

SAID = """\
     0 held up: the disk is full; free some space on /
    60 held up: still, after 60 s: the disk is full; free some space on /
   180 held up: still, after 3 min: the disk is full; free some space on /
   420 held up: still, after 7 min: the disk is full; free some space on /
   900 held up: still, after 15 min: the disk is full; free some space on /
  1800 over, after 30 min: the disk is full; free some space on /
  2000 held up: holds is parked: 401: a wrong key; `crosswind run --target holds` calls it again
  2030 over, after 29 s: holds is parked: 401: a wrong key; `crosswind run --target holds` \
calls it again
  2105 held up: gpt waits: 429: rate limit, again in 12 s (3 calls)
  2146 over, after 30 s: gpt waits: 429: rate limit, again in 12 s (3 calls)
  2200 held up: go on?
  2210 over, after 9 s: go on?
  2300 held up: paused by a person; `crosswind resume` goes on
"""


def board_at(second: int) -> Board:
    if second < 1800:
        return FULL
    if 2000 <= second < 2030:
        return PARKED
    if 2050 <= second < 2054:  # too short to be a pause
        return LIMITED
    if 2100 <= second < 2131 and second != 2115:  # with a try between
        return LIMITED
    if 2200 <= second < 2210:
        return ASKED
    return BY_A_PERSON if 2300 <= second < 2310 else RUNS


def test_pauses_are_said_when_they_begin_at_growing_intervals_and_when_they_end() -> None:
    news = PauseNews()
    said = [f"{at:6} {line}" for at in range(2310) for line in news.hear(board_at(at), at)]
    assert "\n".join(said) + "\n" == SAID
