"""Logs as Inspect writes them, for tests: as small as they can be, and in every shape of ours."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 14):
    import zipfile
else:
    from backports.zstd import zipfile

ZSTD = 93
JsonObject = dict[str, Any]


def header(task: str = "sums", **more: Any) -> JsonObject:
    told = {"task": task, "model": "mockllm/model", "eval_id": "e1", "packages": {}, **more}
    return {"version": 2, "status": "success", "eval": told}


def audit(**more: Any) -> JsonObject:
    """Of Petri or Bloom."""
    roles = {name: {"model": f"mockllm/{name}"} for name in ("auditor", "target", "judge")}
    return header("inspect_petri/audit", model="none/none", model_roles=roles, **more)


def message(role: str, content: object, **more: Any) -> JsonObject:
    return {"role": role, "content": content, **more}


TALK = (
    message("system", "Be brief."),
    message("user", "What is 1+1?"),
    message("assistant", "It is 2."),
    message("user", "Are you sure?"),
    message("assistant", "No, it is 3."),
)


def sample(
    name: int | str = 1,
    scores: Mapping[str, object] | None = None,
    messages: Sequence[JsonObject] = TALK,
    **more: Any,
) -> JsonObject:
    given = {"includes": "C"} if scores is None else scores
    return {
        "id": name,
        "epoch": 1,
        "input": f"What is {name}+1?",
        "target": "2",
        "messages": list(messages),
        "scores": {
            scorer: {"value": value, "explanation": f"{scorer} said so."}
            for scorer, value in given.items()
        },
        **more,
    }


def archive(
    path: Path, head: JsonObject, samples: Sequence[JsonObject], compression: int = ZSTD
) -> Path:
    members = {f"samples/{one['id']}_epoch_{one['epoch']}.json": json.dumps(one) for one in samples}
    return packed(path, {**members, "header.json": json.dumps(head)}, compression)


def packed(
    path: Path, members: Mapping[str, str | bytes], compression: int = zipfile.ZIP_DEFLATED
) -> Path:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", compression) as into:
        for name, content in members.items():
            into.writestr(name, content)
    path.write_bytes(written.getvalue())
    return path


def document(path: Path, head: JsonObject, samples: Sequence[JsonObject]) -> Path:
    path.write_text(json.dumps({**head, "samples": list(samples)}), "utf-8")
    return path
