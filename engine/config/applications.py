"""Targets that are applications rather than bare models: the keys of each kind, and contradictions
between them. Reads the plain data, as `checks.py` does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from engine.config.values import HTTP, PER_CONVERSATION, PYTHON, json_problems
from engine.config.wording import did_you_mean, quotable
from engine.config.yaml_text import KeyPath, YamlDocument
from engine.errors import Problem
from engine.json_template import FROM_COOKIES, Placeholder, misplaced_placeholders, placeholders

_KEYS: Final[Mapping[str, frozenset[str]]] = {
    HTTP: frozenset(
        {"url", "request", "reply", "stream", "headers", "session", "session_from"}
        | {"follow_redirects"}
    ),
    PYTHON: frozenset({"call", "processes"}),
}
"""Keys that only targets of this source have."""
_REQUIRED: Final[Mapping[str, tuple[tuple[str, str], ...]]] = {
    HTTP: (
        ("url", "write where a message is posted, as in `url: http://127.0.0.1:9000/chat`"),
        ("request", "write what is posted, as in `request: {messages: $messages}`"),
    ),
    PYTHON: (("call", "name the function, as in `call: my_module:reply`"),),
}
APPLICATIONS: Final = frozenset(_KEYS)
"""The sources that are applications."""

_OF_A_MODEL: Final = ("base_url", "apikey", "extra_headers", "extra_body", "params")
_INSTEAD: Final[Mapping[str, Mapping[str, str]]] = {
    HTTP: {
        "base_url": "write `url`, the whole address that is posted to",
        "apikey": 'write it as a header: `headers: {Authorization: "Bearer ${NAME}"}`',
        "extra_headers": "write `headers`",
        "extra_body": "write it into `request`",
        "params": "write it into `request`",
    },
    PYTHON: dict.fromkeys(_OF_A_MODEL, "delete it: what the function asks, it decides itself"),
}
"""Keys of a model that an application does not have, each with what to write instead."""


def source_of(spec: object) -> str:
    """The source that is written for a model; empty where there is none."""
    source = spec.get("source") if isinstance(spec, dict) else None
    return source.strip().lower() if isinstance(source, str) else ""


def with_names(document: YamlDocument) -> YamlDocument:
    """The document with a `model` for each application that has none: its function, or its id."""
    targets = document.data.get("targets")
    if not isinstance(targets, list):
        return document
    named = [_target_name(target) for target in targets]
    return replace(document, data={**document.data, "targets": named})


def _target_name(target: Any) -> Any:
    if source_of(target) not in APPLICATIONS or "id" not in target:
        return target
    called = target.get("call") if source_of(target) == PYTHON else None
    return {"model": called or target["id"], **target}


def application_problems(
    at: KeyPath, keys: Mapping[str, Any], document: YamlDocument
) -> Iterator[Problem]:
    """Problems of one model's keys that come from its being an application, or not."""
    source = source_of(keys)
    is_target = at[0] == "targets"
    if source in APPLICATIONS and not is_target:
        what = f"`{source}` is an application, which can be measured, and not play this part"
        hint = "write it as one of `targets`, and the source of a language model here"
        yield document.problem((*at, "source"), what, hint=hint)
        return
    if not is_target:
        return
    own = _KEYS.get(source, frozenset())
    for other, theirs in _KEYS.items():
        for key in sorted((theirs - own) & keys.keys()):
            what = f"this key is for `source: {other}`"
            yield document.problem((*at, key), what, hint="delete it", of_key=True)
    if source in APPLICATIONS:
        yield from _of_an_application(source, at, keys, document)
    if source == HTTP:
        yield from _request_problems(at, keys, document)


def _of_an_application(
    source: str, at: KeyPath, keys: Mapping[str, Any], document: YamlDocument
) -> Iterator[Problem]:
    for key, hint in _INSTEAD[source].items():
        if key in keys:
            what = f"`source: {source}` does not have this key"
            yield document.problem((*at, key), what, hint=hint, of_key=True)
    for key, hint in _REQUIRED[source]:
        if keys.get(key) is None:
            what = f"`source: {source}` needs `{key}`"
            yield document.problem((*at, "source"), what, hint=hint)


def _request_problems(
    at: KeyPath, keys: Mapping[str, Any], document: YamlDocument
) -> Iterator[Problem]:
    if keys.get("reply") is None and keys.get("stream") in {None, "none"}:
        what = "where the reply stands in the answer is not said"
        hint = "write `reply: path.to.text`, or `stream: path.to.text` for server-sent events"
        yield document.problem((*at, "source"), what, hint=hint)
    request = keys.get("request")
    if not isinstance(request, dict):
        return
    yield from json_problems(request, (*at, "request"), document)
    for place, name, is_known in misplaced_placeholders(request):
        yield _misplaced_key((*at, "request", *place), name, document, is_known=is_known)
    yield from _message_problems(at, keys, placeholders(request), document)


def _misplaced_key(at: KeyPath, name: str, document: YamlDocument, *, is_known: bool) -> Problem:
    if is_known:
        what = f"`${name}` is a list, and cannot stand within a text"
        return document.problem(at, what, hint="let it be the whole value")
    what = f"there is no placeholder `${quotable(name)}`"
    return document.problem(at, what, hint=did_you_mean(name, set(Placeholder)))


def _message_problems(
    at: KeyPath, keys: Mapping[str, Any], names: frozenset[str], document: YamlDocument
) -> Iterator[Problem]:
    """Problems of a request that does not tell the application the whole conversation."""
    here = (*at, "request")
    keeps_session = keys.get("session") == PER_CONVERSATION
    by_cookies = keys.get("session_from") == FROM_COOKIES
    if keeps_session and not by_cookies and Placeholder.SESSION not in names:
        what = f"`session: {PER_CONVERSATION}` needs `$session` in the request"
        hint = "write it where the conversation's name is expected, or `session_from: cookies`"
        yield document.problem(here, what, hint=hint, of_key=True)
    own = [name for name in keys.get("headers") or () if str(name).lower() == "cookie"]
    if by_cookies and own:
        what = f"`session_from: {FROM_COOKIES}` sends the cookies that the application has set"
        yield document.problem((*at, "headers", own[0]), what, hint="delete it", of_key=True)
    if keys.get("session_from") is not None and not keeps_session:
        what = f"`session_from` is for `session: {PER_CONVERSATION}`"
        yield document.problem((*at, "session_from"), what, hint="write that, too", of_key=True)
    if not names & {Placeholder.MESSAGES, Placeholder.MESSAGE}:
        what = "the request holds no message"
        hint = "write `$messages` for all of them, or `$message` for the last one"
        yield document.problem(here, what, hint=hint, of_key=True)
    elif not keeps_session and Placeholder.MESSAGES not in names:
        what = "the request holds the last message alone, so that the others are never sent"
        hint = f"write `$messages`, or `session: {PER_CONVERSATION}` if the application keeps them"
        yield document.problem(here, what, hint=hint, of_key=True)
