"""A server for each test, and the official clients to drive it with."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.late import anthropic, openai
from tests.protocol_server.server import ProtocolServer


@pytest.fixture(scope="module")
def _openai_client() -> Iterator[openai.OpenAI]:
    with openai.OpenAI(api_key="test-key", base_url="http://127.0.0.1:1", max_retries=0) as client:
        yield client


@pytest.fixture(scope="module")
def _anthropic_client() -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(
        api_key="test-key", base_url="http://127.0.0.1:1", max_retries=0
    ) as client:
        yield client


@pytest.fixture
def openai_client(_openai_client: openai.OpenAI, server: ProtocolServer) -> openai.OpenAI:
    return _openai_client.with_options(base_url=server.openai_url)


@pytest.fixture
def anthropic_client(
    _anthropic_client: anthropic.Anthropic, server: ProtocolServer
) -> anthropic.Anthropic:
    return _anthropic_client.with_options(base_url=server.anthropic_url)
