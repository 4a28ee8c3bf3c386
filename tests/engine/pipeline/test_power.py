"""What a plan could find out, before it is paid for."""

from __future__ import annotations

from contextlib import closing

from engine.benchmark import Track
from engine.config.benchmark_file import load_definition
from engine.config.schema import load_config
from engine.pipeline.power import Detectable, detectable_differences, power_sentences
from engine.store.database import open_store
from engine.store.open_reader import open_reader
from tests.approval import approve
from tests.engine.small_workspace import Place


def planned(place: Place) -> list[Detectable]:
    path = place.root / "crosswind.db"
    if not path.exists():
        open_store(path).close()
    with closing(open_reader(path)) as reader:
        return detectable_differences(
            load_definition(place.benchmark), load_config(place.config), reader
        )


def test_before_anything_is_written_it_rests_on_assumptions_that_are_told(place: Place) -> None:
    found = planned(place)
    assert [(one.track, one.base_scenarios, one.seen) for one in found] == [
        (None, 4, False),
        (Track.POSITIVE, 2, False),
        (Track.NEGATIVE, 2, False),
    ]
    assert found[1].difference is None
    approve(power_sentences(found[1:]))


def test_more_scenarios_find_smaller_differences(place: Place) -> None:
    found: list[float] = []
    for before, count in ((2, 8), (8, 20), (20, 80)):
        place.edit(
            place.config, f"scenarios_per_metric: {before},", f"scenarios_per_metric: {count},"
        )
        sizes = [one.difference for one in planned(place)]
        assert sizes[1] == sizes[2]
        assert (sizes[0] or 1.0) <= (sizes[1] or 1.0)
        found.append(sizes[1] or 1.0)
    assert found[0] > found[1] > found[2] > 0
    size = planned(place)[0].difference or 1.0
    assert power_sentences(planned(place)) == [
        f"differences between targets of {size * 100:.0f} points or more are found 4 times out of 5"
    ]


def test_verdicts_that_are_there_take_the_place_of_assumptions(place: Place) -> None:
    place.edit(place.config, "scenarios_per_metric: 2,", "scenarios_per_metric: 4,")
    place.run()
    seen = [one for one in planned(place) if one.seen]
    assert seen
    place.edit(place.config, "scenarios_per_metric: 4,", "scenarios_per_metric: 40,")
    more = {one.track: one for one in planned(place)}
    for one in seen:
        later = more[one.track].difference
        assert later is not None
        assert one.difference is None or later < one.difference


def test_one_target_alone_is_compared_with_nobody(place: Place) -> None:
    text = place.config.read_text()
    place.config.write_text(text[: text.index("  - {id: wavers")])
    assert planned(place) == []
