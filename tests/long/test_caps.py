"""A server that takes a hundred and fifty calls at once and no more, on the wire."""

from __future__ import annotations

from tests.engine.providers.test_caps import settles


def test_throughput_settles_near_a_high_cap_with_few_refusals() -> None:
    settles(150, 400.0)
