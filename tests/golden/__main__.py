"""Records the outputs of the two workspaces anew: `python -m tests.golden`. See what changed with
`git diff`."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory

os.environ |= {"CROSSWIND_TRUST": "all", "CROSSWIND_ASCII": "0", "COLUMNS": "80"}

from tests.golden.outputs import OUTPUTS, keep

for workspace, make in OUTPUTS.items():
    with TemporaryDirectory() as folder:
        keep(workspace, make(Path(folder).resolve()))
