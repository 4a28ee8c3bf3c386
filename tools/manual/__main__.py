"""`make docs` and `make docs-serve`: builds the manual, or shows it while it is written."""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from tools.manual.pages import DOCS, clean, write_committed, write_pages

_FOLDER: Final = DOCS.parent / "build" / "manual"
_LOOK_SECONDS: Final = 1.0


def build(folder: Path) -> int:
    """All pages into `folder/site`. Not 0 where a link leads nowhere."""
    clean(folder)
    write_pages(folder)
    code = _zensical(folder, "build", "--strict", "--clean").wait()
    if code == 0:
        sys.stderr.write(f"{folder / 'site' / 'index.html'}\n")
    return code


def serve(folder: Path) -> int:
    """On a port of this machine, until Ctrl-C; a page that is saved is shown anew."""
    write_pages(folder)
    serving = _zensical(folder, "serve")
    try:
        while serving.poll() is None:
            time.sleep(_LOOK_SECONDS)
            write_pages(folder)
    except KeyboardInterrupt:
        serving.terminate()
    return serving.wait()


def _zensical(folder: Path, *words: str) -> subprocess.Popen[bytes]:
    # beside this Python, whose folder need not be in PATH
    program = Path(sys.executable).with_name("zensical")
    return subprocess.Popen([program, *words], cwd=folder)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.manual", description=__doc__)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--serve", action="store_true", help="show it while it is written")
    what.add_argument(
        "--write",
        action="store_true",
        help="write into docs/ what its pages hold of the program, such as the keys of config.yaml",
    )
    parser.add_argument("--folder", type=Path, default=_FOLDER, help="default: build/manual")
    arguments = parser.parse_args()
    if arguments.write:
        write_committed()
        return 0
    act = serve if arguments.serve else build
    return act(arguments.folder)


if __name__ == "__main__":
    sys.exit(main())
