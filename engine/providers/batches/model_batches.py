"""The batches of one model, at each account that its key stands for."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import partial
from typing import Protocol, cast

from engine.providers.accounts import Accounts
from engine.providers.batches.queue import (
    BatchClient,
    BatchLedger,
    BatchQueue,
    BatchTransport,
)
from engine.providers.endpoint import PATHS, Endpoint, Wire
from engine.providers.http.transport import Address
from engine.providers.limiter import HeldCalls
from engine.providers.model import BatchWork


class CancellableLedger(BatchLedger, Protocol):
    """What is on disk of batches, and what is to become of them at the end."""

    cancels: bool
    """Whether a person asked to cancel what is out."""


class ModelBatches:
    """Opens a queue for each key. Belongs to one event loop; closed with the accounts."""

    def __init__(
        self, ledger: CancellableLedger, accounts: Accounts, *, only_first: bool = False
    ) -> None:
        """With `only_first`, whatever is asked again is not asked in a batch."""
        self.only_first = only_first
        self._ledger = ledger
        self._accounts = accounts
        self._queues: dict[bytes, BatchQueue] = {}
        accounts.close_later(self._close)

    def transport(
        self,
        endpoint: Endpoint,
        label: str,
        place: str,
        key: str,
        headers: Mapping[str, str],
        work: BatchWork,
        seed: int,
    ) -> BatchTransport:
        """Return what makes the requests of one reply. `place` names model and address on disk."""
        # by a digest, so that no table is keyed with keys
        made_from = repr([place, key, sorted(headers.items())]).encode()
        account = hashlib.blake2b(made_from, digest_size=16).digest()
        if account not in self._queues:
            open_client = partial(_opened, endpoint, key, headers)
            self._queues[account] = BatchQueue(
                place, label, open_client, self._ledger, self._accounts.clock
            )
        return BatchTransport(
            self._queues[account],
            self._accounts.stoppable,
            f"{work.name} {seed}",
            work.most_usd,
            work.reserve,
            self.only_first,
        )

    def held(self) -> HeldCalls | None:
        """Say what its calls wait for; None if they do not. Callable from any thread."""
        held = [queue.held() for queue in list(self._queues.values())]
        return next((one for one in held if one is not None), None)

    async def _close(self) -> None:
        for queue in self._queues.values():
            await queue.close(cancel=self._ledger.cancels)


def _opened(endpoint: Endpoint, key: str, headers: Mapping[str, str]) -> BatchClient:
    # imported here, as few runs use them
    if endpoint.wire is Wire.ANTHROPIC:
        from engine.providers.batches.anthropic import AnthropicBatches

        return AnthropicBatches(endpoint.base_url, key, headers)
    from engine.providers.batches.openai import OpenAIBatches, Path

    # Azure's addresses with a version have none in the path
    version = "" if "?" in endpoint.base_url else "/v1"
    path = cast("Path", version + PATHS[endpoint.wire])
    return OpenAIBatches(Address(endpoint.base_url, {}, key=key), headers, path)
