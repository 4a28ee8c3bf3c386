"""Paragraphs for the methods section of a paper: what was done and how it was counted.

The figures are those of the analysis; the formulas are those of `engine/statistics`, which gives
their sources.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from engine.analysis.comparability import GroupCheck
from engine.analysis.figures import Analysis, Overall
from engine.analysis.number_words import coefficient
from engine.analysis.provenance import merged_provenance, served_words
from engine.benchmark import UNKNOWN, AnswerForm, Stance, Track
from engine.checks import FaultKind
from engine.display import joined_names, percent, plural, span
from engine.statistics.paired import ERROR_RATE, SHARES, SHARES_OF_ALL
from engine.statistics.rates import ENOUGH_BENCHMARKS

RATES: Final = (
    "A pass rate p is the mean over n rows; a row is what counts for one conversation. Its 95% "
    "interval is Wilson's (1927), with an effective number of rows n_e in place of n, and "
    "Student's t in place of z. The t has f + max(f, 4) degrees of freedom, rounded down, where f "
    "is the effective number of base scenarios (of a metric: the squared sum of their rows over "
    "the sum of squares; Carter, Schnepel and Steigerwald 2017) less the number M of metrics. n_e "
    "is p(1 − p) / V. V is the sum of two parts. The first is the larger of two variances of the "
    "mean: the observed one, over base scenarios within their metric, with C / (C − 1) for a "
    "metric with C base scenarios (metrics with a single one are taken together); and its average "
    "with the expected one (Smyth 2004, eq. 5), in which the observed one has the weight f and the "
    "expected one the weight 4 for each metric. The expected variance is p(1 − p) · deff / n, less "
    "what the difference between metrics explains. The second part, 0.08((p − ½) / (f + M))², "
    "allows for a kind of base scenario that is not among them. The design effect is deff = 1 + "
    "(m′ − 1)ρ* (Kish 1965), where m′ is the size-weighted mean number of rows of a base scenario, "
    "ρ* = (fρ + 4 · 0.3) / (f + 4), and ρ the intra-class correlation of these rows, pooled over "
    "the run. n_e is never larger than it would be at ρ* = 0; where all rows pass or all fail, it "
    "is n / deff. So that a failure more does not raise the lower end, that is the least of those "
    "that there would be if fewer failures were kept, on as few base scenarios as could have them "
    "(with several metrics none, or those of the worst one to sixteen); the upper end likewise"
)
NEW_METRICS: Final = (
    "The interval “for new metrics” is that of metrics drawn from many like these, each being one "
    "cluster: Wilson's with Student's t on M − 1 degrees of freedom, M being the metrics of the "
    "track, and n_e = p(1 − p) / max(V_M, V / 2), where V_M is the variance of the mean over "
    "metrics, with M / (M − 1), plus 0.1((p − ½) / M)², and V is that of the rate above; where all "
    "rows pass or all fail, n_e is at most M"
)
COMPARING: Final = (
    "Targets are compared on the scenarios that both were judged on, each with its rate over "
    "samples: the mean difference, with Student's t and a standard error over base scenarios about "
    "the mean of their metric, which is drawn towards that of all by the weight of 2 of them; a "
    "residual counts (1 − 1 / C) / (1 − h) times, h being the base scenario's share of rows "
    "(jackknife, CV3 of MacKinnon, Nielsen and Webb 2023). Its square is moderated (Smyth 2004) "
    "with two variances. The one that such differences are expected to have weighs 6 / (1 + 0.1(m′ "
    "− 1)) degrees of freedom. The other is the binomial variance of the pair times the "
    "overdispersion of all pairs, the sum of their squared standard errors over that of their "
    "binomial variances; it weighs 40 degrees of freedom, and at most T − 2 times those of the "
    "pair, T being the targets. The result is at least ½ / n_e², n_e being pairs / deff, and "
    "2((p − ½) / B)² is added, p being the common rate and B the effective number of base "
    "scenarios, for failures of a kind that is not among them. The degrees of freedom are "
    "Satterthwaite's (1946), of the effective number of base scenarios, and these weights. "
    "Demographic gaps are taken between variants of one base scenario: where every combination of "
    "people stands in each, between variants that differ in one axis alone, by the same formulas "
    "without overdispersion and rates; else by least squares with an effect of each base scenario "
    "and all axes together, the errors clustered by base scenario and moderated likewise"
)
HOLM: Final = (
    "At most 5% of such results call any difference significant that is none, or turned "
    "round; an interval is at the level at which its difference was tested, and leaves out 0 "
    "exactly where that is significant (Holm's step-down procedure, 1979, with shares"
)
UNLIKE_FAILURES: Final = (
    "The 5% supposes that targets fail in like ways: where one fails whole base scenarios and "
    "another as often but here and there, more results may"
)
AGREEMENT: Final = (
    "Agreement of samples, judges and passes is given as the share of pairs of answers that agree, "
    "Gwet's AC1 (2008) and Krippendorff's α for nominal data (2013), with Wilson's interval and "
    "Student's t over the effective number that a jackknife over base scenarios gives (Efron "
    "1982); for AC1 and α it is the interval of (1 + c) / 2, and the number is bounded by that of "
    "independent scenarios (for α by twice that), and by more where scenarios were answered more "
    "than twice"
)
OF_ALL: Final = (
    "A target's rate over them is the mean of its rates in them, each benchmark weighing the "
    "same. On either side, its interval reaches as far as the root of the sum of the squared "
    "distances from each rate to the end of its own interval, divided by the number of benchmarks"
    " (Zou and Donner 2008). Two targets are compared by the mean of their differences in the "
    "benchmarks that both were scored in; its squared standard error is the sum of the "
    "benchmarks' squared standard errors, divided by the square of their number, with "
    "Satterthwaite's (1946) degrees of freedom. This speaks of other scenarios like those of "
    "these benchmarks"
)
ON_LIKE: Final = (
    "For other benchmarks like these, each benchmark is one cluster: Student's t, with one degree"
    " of freedom less than there are benchmarks, and the standard error of the benchmarks about "
    "their mean, or the one above where that is larger"
)


def methods(analysis: Analysis) -> list[str]:
    """Paragraphs on what was played, what counts, the formulas, and the provenance, each only where
    it applies. For several benchmarks together, one paragraph on how they were combined."""
    if isinstance(analysis, Overall):
        return [_method_overall(analysis)]
    paragraphs = [_played_lines(analysis), _counting_lines(analysis)]
    if any(target.scored for target in analysis.targets):
        paragraphs.append(_formulas(analysis))
    if analysis.provenances:
        paragraphs.append(_made_with(analysis))
    return [" ".join(sentences) for sentences in paragraphs if sentences]


def _method_overall(analysis: Overall) -> str:
    if not analysis.benchmarks:
        return "In no benchmark is anything scored, so there is nothing to put together."
    sentences = [
        f"{plural(len(analysis.benchmarks), 'benchmark')} were put together: "
        f"{joined_names(analysis.benchmarks)}. {OF_ALL}.",
    ]
    if analysis.skipped:
        sentences.append(f"In {joined_names(analysis.skipped)} nothing is scored.")
    if analysis.on_like:
        sentences.append(f"{ON_LIKE}.")
    else:
        sentences.append(
            f"Nothing is said about other benchmarks: that takes {ENOUGH_BENCHMARKS} benchmarks."
        )
    if analysis.family.size:
        shares = ", ".join(
            f"{share * ERROR_RATE:g} to {part}" for part, share in SHARES_OF_ALL.items()
        )
        how = f"{HOLM}: {shares}; the share of a part without comparisons goes to the other)"
        sentences.append(f"{how}; the family is {analysis.family}.")
    return " ".join(sentences)


def _played_lines(analysis: Analysis) -> list[str]:
    tracks = Counter(metric.track for metric in analysis.metrics)
    metrics = ", ".join(f"{tracks[track]} {track}" for track in Track if tracks[track])
    bases = {base for result in analysis.targets for base in result.base_scenarios}
    of = sum(target.of for target in analysis.targets)
    sentences = [
        f"“{analysis.title}” has {plural(len(analysis.metrics), 'metric')}"
        + (f" ({metrics})." if metrics else "."),
    ]
    if analysis.targets:
        targets = joined_names(
            [f"{target.target} ({_model_words(target.model)})" for target in analysis.targets]
        )
        sentences.append(
            f"{plural(of, 'conversation')} of {plural(len(analysis.targets), 'target')}, "
            f"{targets}, belong to it; those that were scored rest on "
            f"{plural(len(bases), 'base scenario')}"
            + (f", rewritten by {joined_names(analysis.axes)}." if analysis.axes else ".")
        )
    return [*sentences, *_user_model_lines(analysis)]


def _user_model_lines(analysis: Analysis) -> Iterator[str]:
    users = _labels(provenance.user_models for provenance in analysis.provenances.values())
    if not users:
        return
    stances = {
        stance for provenance in analysis.provenances.values() for stance in provenance.stances
    }
    goals = [
        words.format(definition=_told_definition(analysis))
        for stance, words in _TOLD.items()
        if not stances or stance in stances
    ]
    lacking, takes = analysis.unrecorded.takes, analysis.unrecorded.of_takes
    by = joined_names([*map(_model_words, users)])
    if users == [UNKNOWN]:
        yield "What the person says is from the imported files, which name no user model."
    elif lacking and lacking == takes:
        yield f"The person was played by {by}."
    else:
        yield (
            f"The person was played, turn by turn, by {by}, {' or '.join(goals)}; targets were "
            "told their system prompt and the conversation so far."
        )
    if lacking:
        yield (
            "What was sent to the user model and to targets is not recorded for "
            f"{lacking:,} of {plural(takes, 'conversation')}."
        )


_TOLD: Final = {
    Stance.ADVERSARIAL: "told the scenario{definition} and what to do next",
    Stance.NEUTRAL: "told the persona and what it openly wants alone (neutral: no hidden goal, "
    "metric or landmark)",
}
"""What the user model is told, by its stance."""


def _told_definition(analysis: Analysis) -> str:
    """Whether it is told the metric's definition, for which the prompt in plain text is too
    short."""
    forms = {
        settings["form"]
        for provenance in analysis.provenances.values()
        for settings in provenance.settings.get("user_model", ())
    }
    if forms == {AnswerForm.PLAIN}:
        return ""
    unless = " (unless asked in plain text)" if AnswerForm.PLAIN in forms else ""
    return f", the metric's definition{unless}"


def _counting_lines(analysis: Analysis) -> list[str]:
    checked = (check for check in analysis.group_checks.values() if check.checked)
    return [
        *_judging(analysis),
        *_scored(analysis),
        *_audited(analysis),
        *map(_group_check_line, checked),
    ]


def _judging(analysis: Analysis) -> Iterator[str]:
    judges = _labels(provenance.judges for provenance in analysis.provenances.values())
    lacking, counted = analysis.unrecorded.verdicts, analysis.unrecorded.of_verdicts
    if judges:
        only = ", told the metric's definition and nothing else of the set-up"
        by = joined_names([*map(_model_words, judges)])
        yield f"Transcripts were judged by {by}{'' if lacking and lacking == counted else only}."
    if lacking:
        verdicts = plural(counted, "verdict")
        yield f"What judges were told is not recorded for {lacking:,} of {verdicts}."
    if analysis.headline_rule:
        yield analysis.headline_rule


def _scored(analysis: Analysis) -> Iterator[str]:
    scored = sum(target.scored for target in analysis.targets)
    of = sum(target.of for target in analysis.targets)
    reasons = sum((Counter(target.unscored) for target in analysis.targets), Counter[str]())
    why = f" ({', '.join(f'{reason} {count:,}' for reason, count in reasons.items())})"
    yield f"{scored:,} of {plural(of, 'conversation')} were scored{why if reasons else ''}."
    early = sum(target.exposure.early for target in analysis.targets)
    ended = sum(target.exposure.conversations for target in analysis.targets)
    planned = sum(target.exposure.planned for target in analysis.targets)
    reached = sum(target.exposure.reached for target in analysis.targets)
    if ended:
        landmarks = (
            f", and {reached:,} of {planned:,} planned landmarks were reached."
            if planned
            else "; no landmark was planned for them."
        )
        yield f"{early:,} of {plural(ended, 'finished conversation')} ended early{landmarks}"
    stale = sum(staleness.stale for staleness in analysis.staleness.values())
    if stale:
        yield f"{plural(stale, 'counting conversation')} {'is' if stale == 1 else 'are'} stale."


def _audited(analysis: Analysis) -> Iterator[str]:
    audits = analysis.user_audits.values()
    looked_at = sum(audit.looked_at for audit in audits)
    checked = sum(audit.landmarks_checked or 0 for audit in audits)
    if looked_at:
        invalid = sum(audit.invalid for audit in audits)
        looked = "rules or a check" if checked else "rules, which find only what is certain,"
        yield f"In {invalid:,} of {looked_at:,}, {looked} found a fault of the user model."
        if not checked:
            yield "Whether it carried out the landmarks that were reached was not checked."
    if checked:
        checkers = joined_names(
            _labels(provenance.checkers for provenance in analysis.provenances.values())
        )
        failed = sum(audit.faults.get(FaultKind.NOT_CARRIED_OUT, 0) for audit in audits)
        yield (
            f"In {plural(checked, 'conversation')} {checkers}, told the user's messages and their "
            f"landmarks alone, looked for landmarks that were not carried out; {failed:,} have one."
        )


def _group_check_line(check: GroupCheck) -> str:
    return (
        f"From the user's messages alone, {joined_names(check.models)} guessed {check.axis} right "
        f"in {check.right:,} of {check.checked:,} ({percent(check.rate)} "
        f"{span(check.low, check.high)}; {percent(check.chance)} by always naming the commonest)."
    )


def _formulas(analysis: Analysis) -> list[str]:
    known = analysis.correlation
    here = f"= {coefficient(known)} here" if known is not None else "unknown here, so that ρ* = 0.3"
    sentences = [f"{RATES} (ρ {here})."]
    if any(estimate for result in analysis.targets for estimate in result.new_metrics.values()):
        sentences.append(f"{NEW_METRICS}.")
    family = analysis.family
    if family.size:
        shares = ", ".join(f"{share * ERROR_RATE:g} to {part}" for part, share in SHARES.items())
        rest = "the share of a part without comparisons goes to the others"
        how = f"{HOLM} of the 5%: {shares}; {rest})"
        sentences.append(f"{COMPARING}. {how}; the family is {family}. {UNLIKE_FAILURES}.")
    if analysis.agreement or any(target.agreement for target in analysis.targets):
        sentences.append(f"{AGREEMENT}.")
    return sentences


def _made_with(analysis: Analysis) -> list[str]:
    sentences = counted_by(analysis)
    served: dict[str, Sequence[str]] = {}
    for provenance in analysis.provenances.values():
        served |= {
            **provenance.targets,
            **provenance.user_models,
            **provenance.judges,
            **provenance.checkers,
        }
    named = {label: names for label, names in served.items() if set(names) - {label}}
    if named:
        sentences.append(f"Servers answered under the names: {served_words(named)}.")
    for target, provenance in analysis.provenances.items():
        if provenance.settings:
            sentences.append(f"Settings of {target}: {provenance.settings_words}.")
    sentences += [str(other) + "." for other in analysis.others]
    return sentences + list(analysis.notes)


def counted_by(analysis: Analysis) -> list[str]:
    """Which program, configuration and prompts the numbers come from, and from when to when; of an
    analysis with provenances."""
    made = merged_provenance(list(analysis.provenances.values()))
    sentences = [f"Counted by Crosswind {made.version}, configuration {made.configuration}."]
    if made.first_at and made.last_at:
        sentences.append(f"Played and judged from {made.first_at} to {made.last_at}.")
    prompts = sorted(f"{stage} {digest}" for stage, of in made.prompts.items() for digest in of)
    if prompts:
        sentences.append(f"Digests of the prompts: {', '.join(prompts)}.")
    return sentences


def _model_words(label: str) -> str:
    return "a model that the imported files do not name" if label == UNKNOWN else label


def _labels(served: Iterator[Mapping[str, Sequence[str]]]) -> list[str]:
    return sorted({label for names in served for label in names})
