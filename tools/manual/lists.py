"""Lists that stand within a page: sources with their addresses, rules, failures, queries, and the
words of providers."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import yaml

from engine.addresses import KEYLESS, PUBLIC_ADDRESSES
from engine.config.values import KNOWN_SOURCES, LOCAL, OFFLINE
from engine.lint import LintRule
from engine.pipeline.remedies import KnownFailure
from engine.providers.attempts import VendorWords
from engine.providers.attempts import table as known_words
from tools.manual.markdown import code, table

_PASSES: Final = {True: "may pass by itself", False: "needs you"}


def sources() -> str:
    """The words that `source` takes by themselves, with where they lead."""
    rows = [
        (code(name), code(PUBLIC_ADDRESSES[name]), "" if name in KEYLESS else "yes")
        for name in sorted(KNOWN_SOURCES - {LOCAL, OFFLINE})
    ]
    return table(("`source`", "address", "needs a key"), rows)


def rules() -> str:
    """The lint rules."""
    rows = [(code(rule.value), rule.sentence, rule.remedy) for rule in LintRule]
    return table(("rule", "what it finds", "how to mend it"), rows)


def queries() -> str:
    """Those of the file for Datasette."""
    file = Path(__file__).parents[2] / "docs" / "datasette.yaml"
    told = yaml.safe_load(file.read_text("utf-8"))
    found = told["databases"]["crosswind"]["queries"].values()
    return "\n\n".join(f"**{one['title']}**\n\n```sql\n{one['sql']}\n```" for one in found)


def failures() -> str:
    """The kinds in which failed rows are grouped, in the order of the screen Problems."""
    rows = [
        (f"**{kind.name_in_words}**", kind.advice, _PASSES[kind.can_pass]) for kind in KnownFailure
    ]
    return table(("what failed", "what to do", ""), rows)


def vendors() -> str:
    """What is known of the words of each provider."""
    tables = []
    for vendor in dict.fromkeys(line.vendor for line in known_words()):
        rows = [
            (_place(line) + code(line.words), line.meaning.words, line.example)
            for line in known_words()
            if line.vendor == vendor
        ]
        name = "Any provider" if vendor == "any" else vendor
        tables.append(f"## {name}\n\n{table(('words', 'meaning', 'example'), rows)}")
    return "\n\n".join(tables)


def _place(line: VendorWords) -> str:
    status = f"{line.status}: " if line.status else ""
    return f"{status}code " if line.is_code else status
