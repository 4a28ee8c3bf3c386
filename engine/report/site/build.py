"""The whole site, from what was counted and what is in the store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from engine.analysis.figures import Analysis, Outcome
from engine.analysis.validation_figures import ValidationReport
from engine.config.benchmark_file import Definition
from engine.jury import Jury
from engine.report.html.site import PublishedBenchmark, folder_of, site_pages
from engine.report.site.folder import SiteFolder, new_site
from engine.report.site.pieces import Pieces
from engine.report.site.transcripts import Transcripts
from engine.store.reader import Reader


@dataclass(frozen=True, slots=True)
class CountedBenchmark:
    """What is known of a benchmark before its transcripts are read."""

    definition: Definition
    analysis: Analysis
    outcomes: Sequence[Outcome]
    validations: Sequence[ValidationReport] = ()


@dataclass(frozen=True, slots=True)
class Built:
    files: int
    conversations: int


def write_site(
    place: Path,
    benchmarks: Iterable[CountedBenchmark],
    reader: Reader,
    jury: Jury,
    made: datetime,
    instead_of: Mapping[str, str],
) -> Built:
    """At `place`, whole or not at all; `instead_of` as of a `SiteFolder`. Raises `InputError` and
    `StoreError`."""
    with new_site(place, instead_of) as folder:
        published = [
            _with_transcripts(folder, one, reader, jury, number)
            for number, one in enumerate(benchmarks, 1)
        ]
        for name, text in site_pages(published, made):
            folder.write(name, text)
        return Built(folder.publish(), sum(one.conversations for one in published))


def _with_transcripts(
    folder: SiteFolder, one: CountedBenchmark, reader: Reader, jury: Jury, number: int
) -> PublishedBenchmark:
    home = folder_of(one.definition.name)
    pieces = Pieces(lambda name, text: folder.write(f"{home}/data/{name}", text))
    count = Transcripts(
        reader=reader,
        benchmark=one.definition.name,
        outcomes={outcome.key: outcome for outcome in one.outcomes},
        metrics={metric.id: metric for metric in one.definition.metrics},
        jury=jury,
        targets=[found.target for found in one.analysis.targets],
    ).write(pieces)
    # another name for other data: a page and the data it loads are always of one site
    data = f"data-{pieces.digest}"
    folder.rename(f"{home}/data", f"{home}/{data}")
    return PublishedBenchmark(
        definition=one.definition,
        analysis=one.analysis,
        validations=one.validations,
        conversations=count,
        data=data,
        number=number,
    )
