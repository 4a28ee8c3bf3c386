"""The batches of both providers: files of calls in, files of results out."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from tests.protocol_server.answers import Rejection, encoded
from tests.protocol_server.channel import Channel
from tests.protocol_server.exchange import carry_out, wrong_key_of
from tests.protocol_server.request import CHAT_PATH, MESSAGES_PATH, RESPONSES_PATH, Request
from tests.protocol_server.service import Service

FILES: Final = "/v1/files"
OPENAI: Final = "/v1/batches"
ANTHROPIC: Final = "/v1/messages/batches"
_JSON: Final = {"content-type": "application/json"}
_ID: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class BatchFault(StrEnum):
    """What goes wrong with one batch."""

    LOST_REQUEST = "lost_request"
    """The connection breaks, and there is no batch."""
    LOST_REPLY = "lost_reply"
    """The connection breaks, and there is one."""
    REFUSED = "refused"
    """400, with a reason."""
    QUEUE_FULL = "queue_full"
    """It is taken, and fails as too much is queued; Anthropic answers 429 at once."""
    EXPIRES = "expires"
    """Half of its calls are made, the others expire."""
    GONE = "gone"
    """404 to whoever asks for it."""
    ODD_STATUS = "odd_status"
    """The first result has the status 0, or an unknown type."""


@dataclass(slots=True)
class Batch:
    """A batch that was submitted."""

    id: str
    calls: Sequence[Mapping[str, Any]]
    """As `custom_id` and body."""
    path: str
    made: datetime
    headers: Mapping[str, str]
    metadata: Mapping[str, str] = field(default_factory=dict)
    fault: BatchFault | None = None
    looks: int = 0
    is_cancelled: bool = False
    results: list[tuple[str, int | None, Any]] | None = None
    """Name, status and body of each call; no status where it was not made. None before the end."""

    @property
    def until(self) -> datetime:
        return self.made + timedelta(days=1)


@dataclass(slots=True)
class Batches:
    """All of a server's batches."""

    looks: int = 2
    """How often one is looked at before it is over."""
    faults: dict[int, BatchFault] = field(default_factory=dict)
    """By the number of the submission, from 1."""
    held: bool = False
    """Whether none ends but by being cancelled."""
    submitted: list[Batch] = field(default_factory=list)
    _files: dict[str, bytes] = field(default_factory=dict)
    _submissions: int = 0

    @staticmethod
    def are_asked(request: Request) -> bool:
        return request.path.startswith((FILES, OPENAI, ANTHROPIC))

    async def serve(self, service: Service, request: Request, channel: Channel) -> None:
        """Answer one request about files or batches."""
        service.received(request)
        rejection = wrong_key_of(request, service.settings)
        if rejection is None:
            rejection = await self._serve(service, request, channel)
        if rejection is not None:
            error = {"message": rejection.message, "type": "invalid_request_error"}
            body = {"type": "error", "error": error}
            channel.respond(rejection.status, _JSON, encoded(body))

    async def _serve(
        self, service: Service, request: Request, channel: Channel
    ) -> Rejection | None:
        anthropic = request.path.startswith(ANTHROPIC)
        base = ANTHROPIC if anthropic else OPENAI
        if request.path.startswith(FILES):
            self._serve_files(request, channel)
            return None
        name, _, verb = request.path.removeprefix(base).strip("/").partition("/")
        if not name and request.method == "POST":
            return self._submit(request, channel, anthropic=anthropic)
        if not name:
            for batch in self.submitted:
                await self._progress(service, batch)
            page = [self._shown(one, anthropic) for one in reversed(self.submitted)]
            page = page[:100]
            channel.respond(200, _JSON, encoded({"data": page, "has_more": False}))
            return None
        found = [one for one in self.submitted if one.id == name]
        if not found or found[0].fault is BatchFault.GONE:
            return Rejection(404, f"No batch {name}")
        [batch] = found
        if verb == "cancel":
            batch.is_cancelled = True
        if verb == "results":
            lines = [_anthropic_line(*result) for result in reversed(batch.results or [])]
            _send_lines(channel, lines)
            return None
        await self._progress(service, batch)
        channel.respond(200, _JSON, encoded(self._shown(batch, anthropic)))
        return None

    def _serve_files(self, request: Request, channel: Channel) -> None:
        if request.method == "POST":
            name = f"file-{len(self._files):06d}"
            self._files[name] = _uploaded(request)
            file = {"id": name, "object": "file", "bytes": len(self._files[name])}
            file |= {"created_at": 0, "filename": "batch.jsonl", "purpose": "batch"}
            channel.respond(200, _JSON, encoded({**file, "status": "processed"}))
            return
        name = request.path.removeprefix(FILES).strip("/").removesuffix("/content")
        kind, _, of = name.partition(":")
        batch = next(one for one in self.submitted if one.id == of)
        wanted = [
            result
            for result in reversed(batch.results or [])
            if (result[1] == 200) is (kind == "output")
        ]
        _send_lines(channel, [_openai_line(*result) for result in wanted])

    def _submit(self, request: Request, channel: Channel, *, anthropic: bool) -> Rejection | None:
        self._submissions += 1
        fault = self.faults.get(self._submissions)
        if fault is BatchFault.LOST_REQUEST:
            channel.reset()
            return None
        if fault is BatchFault.REFUSED:
            return Rejection(400, "This organisation has no batches.")
        if fault is BatchFault.QUEUE_FULL and anthropic:
            return Rejection(429, "Too much is queued.")
        number = len(self.submitted) + 1
        made = datetime.now(UTC)
        if anthropic:
            calls, path = _anthropic_calls(request.body), MESSAGES_PATH
            batch = Batch(f"msgbatch_{number:06d}", calls, path, made, request.headers)
        else:
            calls = _openai_calls(self._files[request.body["input_file_id"]])
            path, metadata = str(request.body["endpoint"]), dict(request.body["metadata"])
            path = f"/v1{path.removeprefix('/v1')}"  # Azure's have no version
            name = f"batch_{number:06d}"
            batch = Batch(name, calls, path, made, request.headers, metadata)
        wrong = next(_faults(batch), None)
        if wrong is not None:
            return Rejection(400, wrong)
        batch.fault = fault
        self.submitted.append(batch)
        if fault is BatchFault.LOST_REPLY:
            channel.reset()
            return None
        channel.respond(200, _JSON, encoded(self._shown(batch, anthropic)))
        return None

    async def _progress(self, service: Service, batch: Batch) -> None:
        """Count a look, and make the calls when it was looked at often enough."""
        batch.looks += 1
        is_due = batch.is_cancelled or (batch.looks >= self.looks and not self.held)
        if batch.results is not None or not is_due:
            return
        batch.results = []
        whole = len(batch.calls)
        made = 0 if batch.is_cancelled else whole
        if batch.fault is BatchFault.EXPIRES:
            made = whole // 2
        if batch.fault is BatchFault.QUEUE_FULL:
            made = 0
        for number, call in enumerate(batch.calls):
            status, body = (None, None)
            is_odd = number == 0 and batch.fault is BatchFault.ODD_STATUS
            if number < made and not is_odd:
                raw = encoded(call["body"])
                asked = Request("POST", batch.path, batch.headers, raw)
                status, body = await _answered(service, asked)
            if is_odd:
                status, body = 0, None
            batch.results.append((call["custom_id"], status, body))

    def _shown(self, batch: Batch, anthropic: bool) -> dict[str, Any]:
        return _anthropic_batch(batch) if anthropic else _openai_batch(batch)


async def _answered(service: Service, request: Request) -> tuple[int, Any]:
    """What a request comes to if it is made at once."""
    taken = _TakenBytes()
    await carry_out(service, request, Channel(taken), service.received(request))
    head, _, body = bytes(taken.data).partition(b"\r\n\r\n")
    if not head:
        return 500, None
    return int(head.split(b" ")[1]), json.loads(body)


class _TakenBytes(asyncio.Transport):
    """A connection whose other side is this process."""

    def __init__(self) -> None:
        super().__init__()
        self.data = bytearray()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.data += data

    def is_closing(self) -> bool:
        return False

    def close(self) -> None:
        pass

    def abort(self) -> None:
        pass

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        del name
        return default


def _uploaded(request: Request) -> bytes:
    """The file in a form."""
    boundary = request.headers["content-type"].partition("boundary=")[2].strip('"')
    parts = request.raw.split(b"--" + boundary.encode())
    [part] = [one for one in parts if b"filename=" in one.partition(b"\r\n\r\n")[0]]
    return part.partition(b"\r\n\r\n")[2].removesuffix(b"\r\n")


def _openai_calls(file: bytes) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in file.splitlines() if line]
    return [{"custom_id": line["custom_id"], "body": line["body"]} for line in lines]


def _anthropic_calls(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"custom_id": one["custom_id"], "body": one["params"]} for one in body["requests"]]


def _faults(batch: Batch) -> Iterator[str]:
    names = [call["custom_id"] for call in batch.calls]
    if len(set(names)) < len(names) or not all(map(_ID.fullmatch, names)):
        yield "custom_id: must be unique, and of letters, digits, _ and -"
    if any(call["body"].get("stream") for call in batch.calls):
        yield "stream: not supported in a batch"
    if len({call["body"]["model"] for call in batch.calls}) > 1:
        yield "model: a batch is for one"
    if batch.path not in {CHAT_PATH, MESSAGES_PATH, RESPONSES_PATH}:
        yield f"endpoint: there are no batches for {batch.path}"


def _openai_batch(batch: Batch) -> dict[str, Any]:
    status = "cancelling" if batch.is_cancelled else "in_progress"
    results = batch.results
    shown: dict[str, Any] = {
        "id": batch.id,
        "object": "batch",
        "endpoint": batch.path,
        "completion_window": "24h",
        "input_file_id": "file-000000",
        "created_at": int(batch.made.timestamp()),
        "expires_at": int(batch.until.timestamp()),
        "metadata": dict(batch.metadata),
    }
    if results is not None:
        status = "cancelled" if batch.is_cancelled else "completed"
        if batch.fault is BatchFault.EXPIRES:
            status = "expired"
        if any(found == 200 for _, found, _ in results):
            shown["output_file_id"] = f"output:{batch.id}"
        if any(found != 200 for _, found, _ in results):
            shown["error_file_id"] = f"error:{batch.id}"
        if batch.fault is BatchFault.QUEUE_FULL:
            status = "failed"
            reason = {"code": "token_limit_exceeded", "message": "Enqueued token limit reached"}
            shown["errors"] = {"object": "list", "data": [reason]}
    return {**shown, "status": status}


def _openai_line(name: str, status: int | None, body: Any) -> dict[str, Any]:
    line: dict[str, Any] = {"id": f"batch_req_{name}", "custom_id": name}
    if status is None:
        error = {"code": "batch_expired", "message": "This request could not be executed."}
        return {**line, "response": None, "error": error}
    response = {"status_code": status, "request_id": "req", "body": body}
    return {**line, "response": response, "error": None}


def _anthropic_batch(batch: Batch) -> dict[str, Any]:
    results = batch.results
    counts = dict.fromkeys(("processing", "succeeded", "errored", "canceled", "expired"), 0)
    if results is None:
        counts["processing"] = len(batch.calls)
    for _, status, _ in results or []:
        kind = "succeeded" if status == 200 else "expired" if status is None else "errored"
        counts[kind] += 1
    ended = results is not None
    stage = "ended" if ended else "canceling" if batch.is_cancelled else "in_progress"
    return {
        "id": batch.id,
        "type": "message_batch",
        "processing_status": stage,
        "request_counts": counts,
        "created_at": batch.made.isoformat(),
        "expires_at": batch.until.isoformat(),
        "ended_at": batch.made.isoformat() if ended else None,
        "results_url": f"{ANTHROPIC}/{batch.id}/results" if ended else None,
    }


def _anthropic_line(name: str, status: int | None, body: Any) -> dict[str, Any]:
    if status is None:
        result: dict[str, Any] = {"type": "expired"}
    elif status == 200:
        result = {"type": "succeeded", "message": body}
    else:
        result = {"type": "errored", "error": body}
    return {"custom_id": name, "result": result}


def _send_lines(channel: Channel, lines: Sequence[Mapping[str, Any]]) -> None:
    body = b"".join(encoded(line) + b"\n" for line in lines)
    channel.respond(200, {"content-type": "application/x-jsonl"}, body)
