"""Opens Inspect's logs, `.eval` archives and `.json` documents, without trusting their content.

An archive is never unpacked to disk, and at most one of its samples is in memory. Of each shape
only the fields that are used here are decoded; events, which are most of a sample, when needed.
"""

from __future__ import annotations

import io
import re
import sys
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from engine.errors import InputError, Problem
from engine.files import MARKS, decoded_text, open_regular

CUT_OFF: Final = "was the file cut off?"
LARGEST_VALUES: Final = 32 << 20
"""Bytes of JSON that are decoded at once."""
_NO_NUMBER: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"|\bNaN\b|-?\bInfinity\b')
"""What Python writes although JSON has no word for it; strings are matched so that they are
skipped."""


class MessagePart(Struct):
    """A part of a message's content."""

    type: str = "text"
    text: str = ""
    reasoning: str = ""


class LoggedMessage(Struct):
    role: str
    content: str | list[MessagePart] | None = None
    id: str | None = None
    tool_calls: list[dict[str, Any]] | None = None
    metadata: dict[str, Any] | None = None


class InspectScore(Struct):
    value: Any = None
    answer: Any = None
    explanation: str | None = None
    metadata: dict[str, Any] | None = None


class TokensUsed(Struct):
    input_tokens: int = 0
    output_tokens: int = 0


class InspectSample(Struct):
    id: int | str
    epoch: int
    input: str | list[LoggedMessage]
    messages: list[LoggedMessage]
    uuid: str | None = None
    scores: dict[str, InspectScore] | None = None
    metadata: dict[str, Any] = {}
    model_usage: dict[str, TokensUsed] = {}
    role_usage: dict[str, TokensUsed] = {}
    error: dict[str, Any] | None = None
    limit: dict[str, Any] | None = None
    events: Raw = Raw(b"[]")
    events_data: Raw = Raw(b"null")
    message_pool: Raw = Raw(b"[]")
    attachments: Raw = Raw(b"{}")


_EVENTS: Final = ("events", "events_data", "message_pool", "attachments")


class InspectResults(Struct):
    """What a log says of all its samples."""

    task: str
    model: str = ""
    eval_id: str = ""
    task_display_name: str | None = None
    task_description: str | None = None
    model_roles: dict[str, Any] | None = None
    task_args: Any = None
    model_args: Any = None
    model_generate_config: Any = None
    solver: Any = None
    solver_args: Any = None
    packages: dict[str, str] = {}
    metadata: dict[str, Any] | None = None
    shards: dict[str, Any] | None = None


class InspectVersion(Struct):
    """Decoded first, as a newer version may have another shape."""

    version: int | UnsetType = UNSET


class InspectHeader(Struct):
    eval: Raw


class WholeLog(Struct):
    """A log that is a single JSON document."""

    eval: Raw
    samples: list[Raw] | None = None


# JSON

T = TypeVar("T")


def decoded(raw: bytes, shape: type[T], path: Path, key: str | None) -> T | Problem:
    """Decode; return the value, or the problem with it at this key of the log."""
    try:
        return msgspec.json.decode(raw, type=shape)
    except msgspec.ValidationError as error:
        return Problem(f"is not as Inspect writes it: {error}", path, key=key)
    except RecursionError:
        return Problem("values are nested deeper than can be read", path, key=key)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        if b"NaN" not in raw and b"Infinity" not in raw:
            hint = CUT_OFF if "truncated" in str(error) else None
            return Problem(f"this is not JSON: {error}", path, key=key, hint=hint)
    try:
        return msgspec.json.decode(_NO_NUMBER.sub(_null, raw), type=shape)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return Problem(f"this is not JSON: {error}", path, key=key)


def _null(match: re.Match[bytes]) -> bytes:
    return match[0] if match[0].startswith(b'"') else b"null"


def evaluated(raw: Raw, path: Path, key: str | None) -> InspectResults | Problem:
    """Decode a log's header; return it, or the problem with it."""
    if _size([raw]) > LARGEST_VALUES:
        return Problem(f"`eval` has more than {LARGEST_VALUES >> 20} MB", path, key=key)
    return decoded(bytes(raw), InspectResults, path, key)


def sample_of(raw: bytes | Raw, path: Path, key: str) -> InspectSample | Problem:
    """Decode a sample, without its events if they are too large; return it, or its problem.

    Its members stay undecoded until their sizes are known: values may need fifty times the bytes.
    """
    members = decoded(bytes(raw), dict[str, Raw], path, key)
    if isinstance(members, Problem):
        return members
    events: dict[str, Raw] = {name: members.pop(name) for name in _EVENTS if name in members}
    values = {
        name: value
        for name in InspectSample.__struct_fields__
        if (value := members.get(name)) is not None and bytes(value) != b"null"
    }
    if _size(values.values()) > LARGEST_VALUES:
        what = f"what was said and found in it has more than {LARGEST_VALUES >> 20} MB"
        return Problem(what, path, key=key)
    if _size(events.values()) <= LARGEST_VALUES:
        values |= events
    return decoded(msgspec.json.encode(values), InspectSample, path, key)


def _size(parts: Iterable[Raw]) -> int:
    return sum(memoryview(part).nbytes for part in parts)


# Events, which are needed if a sample's messages are not the target's own


class _Choice(Struct):
    message: LoggedMessage | None = None


class _Output(Struct):
    choices: list[_Choice] = []


class _Event(Struct):
    event: str = ""
    role: str | None = None
    input: list[LoggedMessage] = []
    input_refs: list[tuple[int, int]] | None = None
    output: _Output | None = None


class _Pool(Struct):
    messages: list[LoggedMessage] = []


def last_target_call(sample: InspectSample) -> list[LoggedMessage]:
    """Return the messages of the target's last call, and its answer; empty if they cannot be
    decoded, or if no model had the role `target`."""
    try:
        events = msgspec.json.decode(sample.events, type=list[_Event])
        pool = msgspec.json.decode(sample.events_data, type=_Pool | None)
        older = msgspec.json.decode(sample.message_pool, type=list[LoggedMessage])
        texts = msgspec.json.decode(sample.attachments, type=dict[str, str])
    except (msgspec.DecodeError, RecursionError):
        return []
    calls = (
        event for event in reversed(events) if event.event == "model" and event.role == "target"
    )
    last = next((call for call in calls if call.output and call.output.choices), None)
    if last is None or last.output is None:
        return []
    pooled = older if pool is None else pool.messages
    referred = [message for start, end in last.input_refs or () for message in pooled[start:end]]
    answer = last.output.choices[0].message
    messages = [*last.input, *referred, *([] if answer is None else [answer])]
    return [_with_attachments(message, texts) for message in messages]


def _with_attachments(message: LoggedMessage, texts: dict[str, str]) -> LoggedMessage:
    """Insert long texts, which the log stores separately."""

    def whole(text: str) -> str:
        return (
            texts.get(text.removeprefix("attachment://"), text)
            if text[:13] == "attachment://"
            else text
        )

    if isinstance(message.content, str):
        message.content = whole(message.content)
    for part in message.content if isinstance(message.content, list) else ():
        part.text, part.reasoning = whole(part.text), whole(part.reasoning)
    return message


if sys.version_info >= (3, 14):
    import zipfile

    from compression.zstd import ZstdError
else:
    # Inspect compresses with Zstandard, which `zipfile` supports from Python 3.14 on
    from backports.zstd import ZstdError, zipfile

VERSIONS: Final = (2, 3)
"""The supported versions of Inspect's log format. Inspect 0.3.190 to 0.3.199 wrote 3, which differs
in where the messages of events are, and then went back to 2."""
LARGEST_MEMBER: Final = 256 << 20
"""Bytes of one sample, unpacked."""
LARGEST_DOCUMENT: Final = 128 << 20
"""Bytes of a log that is a single document."""
EXPANSION: Final = 200
"""An archive may unpack to this many times its size, or to a gigabyte if that is more."""
_FLOOR: Final = 1 << 30
_HEADER: Final = "header.json"
_START: Final = "_journal/start.json"
_SAMPLES: Final = "samples/"
_NOT_UNPACKED: Final = (
    *(zipfile.BadZipFile, zlib.error, ZstdError, EOFError, ValueError),
    RuntimeError,  # encrypted, or compressed in a way that `zipfile` does not know
)
_NOT_A_LOG: Final = "expected a log of Inspect: an .eval archive, or a .json document with `eval`"


OpenLog = tuple[InspectResults, Iterator[InspectSample | Problem]]
"""What a log says of all its samples, and these, valid while its file is open. A sample that cannot
be read is replaced by its problem."""


@contextmanager
def open_log(path: Path) -> Iterator[OpenLog]:
    """Open a log. Raises `InputError`."""
    try:
        with open_regular(path) as file:
            is_archive = file.peek(4)[:4] in {b"PK\3\4", b"PK\5\6"}
            yield _archive(path, file) if is_archive else _document(path, file)
    except OSError as error:
        raise InputError(Problem(f"cannot be read: {error.strerror}", path)) from error


def is_log(path: Path) -> bool:
    """Decide by the suffix, as Inspect does."""
    return path.suffix.lower() in {".eval", ".json"}


# A document


def _document(path: Path, file: io.BufferedReader) -> OpenLog:
    raw = file.read(LARGEST_DOCUMENT + 1)
    if len(raw) > LARGEST_DOCUMENT:
        what = f"has more than {LARGEST_DOCUMENT >> 20} MB, which is too much for one JSON document"
        hint = "`inspect log convert --to eval` makes it an archive"
        raise InputError(Problem(what, path, hint=hint))
    try:
        raw = decoded_text(raw).encode() if raw.startswith(MARKS) else raw
    except UnicodeDecodeError as error:
        raise InputError(Problem(f"is not the {error.encoding} it says it is", path)) from error
    if not raw.lstrip()[:1] == b"{":
        raise InputError(Problem(f"is neither an archive nor a JSON object; {_NOT_A_LOG}", path))
    document, about = _header(raw, WholeLog, path, None)
    listed = document.samples or []
    samples = (sample_of(sample, path, f"samples[{place}]") for place, sample in enumerate(listed))
    return about, samples


# An archive


def _archive(path: Path, file: io.BufferedReader) -> OpenLog:
    try:
        archive = zipfile.ZipFile(file)
    except (zipfile.BadZipFile, ValueError, OverflowError, NotImplementedError) as error:
        what = f"is not a whole archive: {error}"
        raise InputError(Problem(what, path, hint=CUT_OFF)) from error
    members = archive.infolist()
    _refuse_bomb(path, members)
    names = {member.filename: member for member in members}
    name = next((name for name in (_HEADER, _START) if name in names), None)
    if name is None:
        raise InputError(Problem(f"has neither {_HEADER} nor {_START}; {_NOT_A_LOG}", path))
    _, about = _header(_unpacked(archive, names[name], path), InspectHeader, path, name)
    listed = [
        member for member in members if member.filename.startswith(_SAMPLES) and not member.is_dir()
    ]
    return about, _in_archive(path, archive, listed)


def _refuse_bomb(path: Path, members: list[zipfile.ZipInfo]) -> None:
    """Raise `InputError` for an archive that unpacks to far more than Inspect's do."""
    size = path.stat().st_size
    whole = sum(member.file_size for member in members)
    if whole > max(_FLOOR, EXPANSION * size):
        what = f"would unpack to {whole >> 20} MB, which is more than {EXPANSION} times its size"
        raise InputError(Problem(what, path, hint="it was not read"))


def _in_archive(
    path: Path, archive: zipfile.ZipFile, listed: list[zipfile.ZipInfo]
) -> Iterator[InspectSample | Problem]:
    pieces = Counter[str]()
    for member in listed:
        if member.filename.count("/") > 1 and not _is_whole(member.filename):
            pieces[member.filename.removeprefix(_SAMPLES).split("/")[0]] += 1
            continue
        try:
            raw = _unpacked(archive, member, path)
        except InputError as error:
            yield error.problems[0]
            continue
        yield sample_of(raw, path, member.filename[:200])
    for name in pieces:
        what = "this sample is kept in pieces, which are not read here"
        hint = "`inspect log convert` writes it as one"
        yield Problem(what, path, key=f"{_SAMPLES}{name}"[:200], hint=hint)


def _is_whole(name: str) -> bool:
    """Whether a member is a whole sample: an id may contain slashes."""
    epoch = name.rpartition("_epoch_")[2]
    return epoch.endswith(".json") and epoch.removesuffix(".json").isdecimal()


def _unpacked(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, path: Path) -> bytes:
    """Unpack a member. Raises `InputError`.

    It has at most its declared size, which `_refuse_bomb` bounds: zipfile reads no further.
    """
    key = entry.filename[:200]
    try:
        with archive.open(entry) as member:
            raw = member.read(LARGEST_MEMBER + 1)
    except _NOT_UNPACKED as error:
        what = f"cannot be unpacked: {error}"
        raise InputError(Problem(what, path, key=key, hint=CUT_OFF)) from error
    if len(raw) > LARGEST_MEMBER:
        raise InputError(Problem(f"has more than {LARGEST_MEMBER >> 20} MB", path, key=key))
    return raw


# JSON

H = TypeVar("H", InspectHeader, WholeLog)


def _header(raw: bytes, shape: type[H], path: Path, key: str | None) -> tuple[H, InspectResults]:
    """Decode the header, its version first: a newer one may have another shape."""
    version = decoded(raw, InspectVersion, path, key)
    if isinstance(version, Problem):
        raise InputError(version)
    if version.version is UNSET:
        raise InputError(Problem(f"has no `version`; {_NOT_A_LOG}", path, key=key))
    if version.version not in VERSIONS:
        age = "a newer" if version.version > VERSIONS[-1] else "an older"
        listed = " and ".join(map(str, VERSIONS))
        what = f"is of version {version.version} of the log format; this program reads {listed}"
        hint = f"{age} Inspect wrote it; `inspect log convert` of one of your own may help"
        raise InputError(Problem(what, path, key=key, hint=hint))
    header = decoded(raw, shape, path, key)
    about = header if isinstance(header, Problem) else evaluated(header.eval, path, key)
    if isinstance(header, Problem) or isinstance(about, Problem):
        raise InputError([part for part in (header, about) if isinstance(part, Problem)][:1])
    if about.shards is not None:
        what = "its samples are in several logs (shards), which it only lists"
        raise InputError(Problem(what, path, key=key, hint="import those logs themselves"))
    return header, about
