"""The command `crosswind`, also `python -m crosswind`."""

from __future__ import annotations

import sys

from crosswind import foreign_package


def main() -> None:
    """Exits the process with the command's exit code."""
    fault = foreign_package()
    if fault is not None:
        sys.stderr.write(f"{fault}\n")
        sys.exit(2)
    from tui.__main__ import main as run_command  # noqa: TID251  (only now is it known to be ours)

    run_command()


if __name__ == "__main__":
    main()
