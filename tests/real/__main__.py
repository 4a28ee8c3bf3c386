"""A sample benchmark against servers that people run: `make check-real`.

Each is installed from its package registry into a temporary folder, and what cannot be installed or
started is said with its reason. Nothing is paid for, and nothing but the installing leaves this
machine. With `--write` the table goes into docs/real-servers.md.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from engine.trust import ALLOW_ALL
from tests.real import aimock, litellm, nginx, transformers_serve, xllamacpp
from tests.real.runs import HEAD, NotTriedError

PARTS: Final[dict[str, tuple[str, Callable[[Path], Iterator[str]]]]] = {
    "litellm": ("LiteLLM's proxy", litellm.lines),
    "aimock": ("aimock", aimock.lines),
    "xllamacpp": ("xllamacpp", xllamacpp.lines),
    "transformers": ("transformers serve", transformers_serve.lines),
    "nginx": ("nginx", nginx.lines),
}
PAGE: Final = Path("docs/real-servers.md")
_MARK: Final = "<!-- measured -->"


def main() -> int:
    parser = argparse.ArgumentParser(prog="make check-real", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}")
    parser.add_argument("--write", action="store_true", help=f"keep the table in {PAGE}")
    asked = parser.parse_args()
    unknown = sorted({*asked.parts} - {*PARTS})
    if unknown:
        parser.error(f"there is no part {unknown[0]}; there are {', '.join(PARTS)}")
    os.environ[ALLOW_ALL] = "all"  # the workspaces are ours, and nobody is there to be asked
    rows, left_out = [], []
    with TemporaryDirectory(prefix="crosswind-real-") as name:
        for part in asked.parts or PARTS:
            title, lines = PARTS[part]
            folder = Path(name) / part
            folder.mkdir()
            try:
                for line in lines(folder):
                    rows.append(line)
                    sys.stderr.write(f"{line}\n")
            except NotTriedError as error:
                left_out.append(f"{title} was not tried: {error}.")
                sys.stderr.write(f"{left_out[-1]}\n")
    measured = "\n".join([_when(), "", HEAD, *rows, *(f"\n{why}" for why in left_out)]) + "\n"
    sys.stdout.write(measured)
    if asked.write:
        before = PAGE.read_text("utf-8").partition(_MARK)[0]
        PAGE.write_text(f"{before}{_MARK}\n\n{measured}", "utf-8")
    return 1 if left_out else 0


def _when() -> str:
    today = datetime.now(UTC)
    day = f"{today.day} {today:%B %Y}"
    return f"Measured on {day}, on {platform.system()} with Python {platform.python_version()}."


if __name__ == "__main__":
    sys.exit(main())
