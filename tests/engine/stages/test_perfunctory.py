"""Messages are roughened the same way every time, also while they arrive."""

from __future__ import annotations

from engine.stages.simulate import Roughener, roughen, roughened

TEXT = (
    "I'm really tired of this, honestly. Could you please just tell me what you would do? "
    "Because I can't decide anything today, and people keep asking."
)


def test_the_same_seed_gives_the_same_slips_and_another_gives_others() -> None:
    assert roughen(TEXT, 4) == roughen(TEXT, 4)
    assert len({roughen(TEXT, seed) for seed in range(20)}) == 20


def test_it_looks_typed_in_haste_and_can_still_be_read() -> None:
    rough = [roughen(TEXT, seed) for seed in range(50)]
    lower = sum(text == text.lower() for text in rough)
    assert lower >= 5
    assert all("tired" in text or "tierd" in text or len(text) > 100 for text in rough)
    assert all(len(TEXT) * 0.8 < len(text) <= len(TEXT) for text in rough)


def test_what_was_heard_of_a_message_stays_as_it_was() -> None:
    for seed in range(30):
        rough = Roughener(seed)
        said = "".join(rough.feed(TEXT[at : at + 5]) for at in range(0, len(TEXT), 5))
        assert (said + rough.finish()).rstrip() == roughen(TEXT, seed)


def test_nothing_left_over_is_never_an_empty_message() -> None:
    assert all(roughen("I", seed) for seed in range(50))


def test_a_message_that_begins_anew_is_roughened_from_its_start() -> None:
    pieces: list[str | None] = []
    hear = roughened(7, pieces.append)
    hear("half a mess")
    hear(None)
    hear(TEXT + " ")
    at = pieces.index(None)
    assert roughen(TEXT, 7).startswith("".join(piece or "" for piece in pieces[at + 1 :]).rstrip())
