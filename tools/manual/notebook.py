"""Runs the code of the manual's notebook and keeps what it shows, as Jupyter does."""

from __future__ import annotations

import ast
import io
import json
from contextlib import chdir, redirect_stdout
from pathlib import Path
from typing import Any, Final

from tools.manual.pages import DOCS

NOTEBOOK: Final = DOCS / "notebook.ipynb"
PAGE: Final = DOCS / "study.md"
"""The worked page whose workspace the notebook reads."""


def executed(text: str, workspace: Path) -> str:
    """A notebook with what its cells print and show when they are run in a workspace."""
    notebook = json.loads(text)
    names: dict[str, Any] = {"__name__": "__main__"}
    count = 0
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        count += 1
        with chdir(workspace):
            outputs = _outputs("".join(cell["source"]), names, count)
        cell |= {"execution_count": count, "outputs": outputs}
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def _outputs(source: str, names: dict[str, Any], count: int) -> list[dict[str, Any]]:
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    value = None
    with redirect_stdout(printed):
        exec(compile(tree, "cell", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    outputs: list[dict[str, Any]] = []
    if text := printed.getvalue():
        outputs.append({"name": "stdout", "output_type": "stream", "text": _lines(text)})
    if value is not None:
        shown = {"data": {"text/plain": _lines(repr(value))}, "metadata": {}}
        outputs.append({**shown, "execution_count": count, "output_type": "execute_result"})
    return outputs


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)
