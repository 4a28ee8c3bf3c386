"""Simple rules over metrics and scenarios, for faults that make one hard to judge or to play.

No rule asks a model. Each prefers missing a fault to a false alarm.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import combinations, pairwise
from typing import Final

from engine.benchmark import Landmark, Metric, Scenario, Track

ALIKE: Final = 0.6
"""The share of common words from which two texts count as similar."""


def words_of(*texts: str) -> frozenset[str]:
    """The case-folded words of at least four letters."""
    return frozenset(_WORD.findall(" ".join(texts).casefold()))


# four letters: shorter words are mostly grammar, which all texts share
_WORD: Final = re.compile(r"[^\W\d_]{4,}")


def resemblance(mine: frozenset[str], theirs: frozenset[str]) -> float:
    """The Jaccard similarity (Broder 1997, On the resemblance and containment of documents)."""
    return len(mine & theirs) / (len(mine | theirs) or 1)


def near_duplicates(scenarios: Sequence[Scenario]) -> Iterator[tuple[Scenario, Scenario, float]]:
    """Yield pairs whose persona, goal and landmarks resemble each other by at least `ALIKE`."""
    words_of_scenarios = [(scenario, words_told(scenario)) for scenario in scenarios]
    for (one, mine), (other, theirs) in combinations(words_of_scenarios, 2):
        alike = resemblance(mine, theirs)
        if alike >= ALIKE:
            yield one, other, alike


def near_duplicate_groups(scenarios: Sequence[Scenario]) -> list[list[Scenario]]:
    """Groups of scenarios, each of which resembles another one of its group, in the order in which
    they are given."""
    texts = [words_told(scenario) for scenario in scenarios]
    # those of the same words are one group from the start, and two of one group are not compared:
    # a study made from one template has a thousand
    groups = {text: {text} for text in texts if text}
    for one, other in combinations(groups, 2):
        if groups[one] is not groups[other] and resemblance(one, other) >= ALIKE:
            rest, joined = sorted((groups[one], groups[other]), key=len)
            joined |= rest
            groups.update(dict.fromkeys(rest, joined))
    members: dict[int, list[Scenario]] = {}
    for scenario, text in zip(scenarios, texts, strict=True):
        if text:
            members.setdefault(id(groups[text]), []).append(scenario)
    return [group for group in members.values() if len(group) > 1]


def words_told(scenario: Scenario) -> frozenset[str]:
    """The words of a scenario's persona, goal and landmarks."""
    instructions = (mark.instruction for mark in scenario.landmarks)
    return words_of(scenario.persona, scenario.user_goal, *instructions)


LONGEST: Final = 16_384
"""Only this many characters of each text are examined."""


class LintRule(StrEnum):
    """The ids of the rules, as used in files and findings."""

    ONE_BEHAVIOUR = "one-behaviour"
    NOT_VISIBLE = "not-visible"
    DIRECTION = "direction"
    NEAR_MISS = "near-miss"
    OVERLAP = "overlap"
    EXAMPLE_NOT_SAID = "example-not-said"
    PERSONA_GROUP = "persona-group"
    LANDMARK_QUOTATION = "landmark-quotation"
    MENTIONS_TESTS = "mentions-tests"
    PRESSURE_NOT_RISING = "pressure-not-rising"
    LANDMARK_BEYOND_TURNS = "landmark-beyond-turns"
    NEAR_DUPLICATE = "near-duplicate"
    GOAL_GIVEN_AWAY = "goal-given-away"

    @property
    def sentence(self) -> str:
        """What is wrong when the rule finds something."""
        return _SENTENCES[self]

    @property
    def remedy(self) -> str:
        return _MEND[self]


_SENTENCES: Final[Mapping[LintRule, str]] = {
    LintRule.ONE_BEHAVIOUR: 'A metric holds more than one behaviour: "and" joins two verbs.',
    LintRule.NOT_VISIBLE: "A definition speaks of what no message shows: wants, tries to, intends.",
    LintRule.DIRECTION: "The name, the type and the definition of a metric disagree on its "
    "direction.",
    LintRule.NEAR_MISS: "A definition names no near miss that does not count.",
    LintRule.OVERLAP: f"Two metrics have {ALIKE:.0%} of their words or more in common.",
    LintRule.EXAMPLE_NOT_SAID: "An example describes, names a speaker, or is another metric's too.",
    LintRule.PERSONA_GROUP: "The persona of a base scenario names a demographic group.",
    LintRule.LANDMARK_QUOTATION: "A landmark is for the most part a message in quotation marks.",
    LintRule.MENTIONS_TESTS: "The person speaks of tests, benchmarks or system prompts.",
    LintRule.PRESSURE_NOT_RISING: "There are fewer than two landmarks, one repeats the one before "
    "it, or the last lies in the first half.",
    LintRule.LANDMARK_BEYOND_TURNS: "A landmark lies after the last turn, so it is never reached.",
    LintRule.NEAR_DUPLICATE: f"Two base scenarios of a metric have {ALIKE:.0%} of their words or "
    "more in common.",
    LintRule.GOAL_GIVEN_AWAY: "The user goal or a landmark says the hidden goal.",
}
_MEND: Final[Mapping[LintRule, str]] = {
    LintRule.ONE_BEHAVIOUR: "make two metrics of it, or leave one of the two out",
    LintRule.NOT_VISIBLE: "say what the assistant's messages say when it is so",
    LintRule.DIRECTION: 'call a negative metric "Avoid …" and define the bad behaviour itself; '
    "let the name of a positive one say what should be there",
    LintRule.NEAR_MISS: 'add what comes close and "does not count"',
    LintRule.OVERLAP: "merge the two, or say in each definition what sets it apart",
    LintRule.EXAMPLE_NOT_SAID: "write a sentence as an assistant would say it, and that shows only "
    "this behaviour",
    LintRule.PERSONA_GROUP: "leave it out of the base scenario; `demographics` of config.yaml adds "
    "groups to its variants",
    LintRule.LANDMARK_QUOTATION: "say what the person does and in which mood; leave the wording "
    "open",
    LintRule.MENTIONS_TESTS: "give the person a reason of their own to write",
    LintRule.PRESSURE_NOT_RISING: "use two landmarks or more, each harder to withstand, the last "
    "near the end",
    LintRule.LANDMARK_BEYOND_TURNS: "move it forward, or raise `generation.turns` in config.yaml",
    LintRule.NEAR_DUPLICATE: "change one of the two: what it is about, what is at stake, how they "
    "press",
    LintRule.GOAL_GIVEN_AWAY: "keep the hidden goal out of what the person says and openly wants",
}


@dataclass(frozen=True, slots=True)
class LintFinding:
    """What one rule found in one metric or scenario."""

    rule: LintRule
    id: str
    """The id of the metric or scenario."""
    says: str
    """One sentence: what was found."""
    key: tuple[str | int, ...] = ()
    """The path within a metric, such as `("examples", 1)`; empty for scenarios."""
    text: str = ""
    """The text of a scenario that it is about; empty where it is about no single one."""


# Metrics


def lint_metrics(metrics: Sequence[Metric]) -> list[LintFinding]:
    """Return the findings in the order of `metrics`."""
    metrics = [_cut_metric(metric) for metric in metrics]
    findings_of_metrics = [finding for metric in metrics for finding in _of_metric(metric)]
    return _by_order(
        [*findings_of_metrics, *_overlaps(metrics), *_shared_examples(metrics)],
        [metric.id for metric in metrics],
    )


def _cut_metric(metric: Metric) -> Metric:
    return replace(
        metric,
        name=metric.name[:LONGEST],
        definition=metric.definition[:LONGEST],
        examples=tuple(example[:LONGEST] for example in metric.examples),
    )


def _of_metric(metric: Metric) -> Iterator[LintFinding]:
    for key, text in (("name", metric.name), ("definition", _core(metric.definition))):
        if (verbs := _two_verbs(text)) is not None:
            words = f'the {key} joins two behaviours: "{verbs}"'
            yield LintFinding(LintRule.ONE_BEHAVIOUR, metric.id, words, (key,))
            break
    unseen = _UNSEEN.search(metric.definition)
    if unseen is not None:
        words = f'no message shows this: "{unseen[0]}"'
        yield LintFinding(LintRule.NOT_VISIBLE, metric.id, words, ("definition",))
    if (fault := _direction_fault(metric)) is not None:
        yield LintFinding(LintRule.DIRECTION, metric.id, fault, ("name",))
    if _NEAR_MISS.search(metric.definition) is None:
        words = "the definition names no near miss that does not count"
        yield LintFinding(LintRule.NEAR_MISS, metric.id, words, ("definition",))
    for number, example in enumerate(metric.examples):
        if (described := _DESCRIBES.match(example)) is not None:
            words = f'an example describes or names a speaker: "{described[0].strip()} …"'
            yield LintFinding(LintRule.EXAMPLE_NOT_SAID, metric.id, words, ("examples", number))


def _core(definition: str) -> str:
    """The definition without sentences that contain "count": what else counts, and what does
    not."""
    sentences = _SENTENCE.split(definition)
    return ". ".join(sentence for sentence in sentences if "count" not in sentence)


_SENTENCE: Final = re.compile(r"[.!?]\s")
_VERBS: Final = frozenset(
    (
        "acknowledges admits advises agrees apologises apologizes asks avoids confirms contradicts "
        "declines disagrees discourages dismisses encourages explains flatters gives ignores "
        "insists invites keeps makes mentions proposes provides recommends refuses rejects reminds "
        "repeats says speaks suggests tells treats urges validates warns withdraws"
    ).split()
)
"""Third-person verbs. Others, which may be plural nouns (offers), need an object after them."""
_AND: Final = re.compile(
    r"\b(?P<verb>[a-z]{2,20}s)\b(?P<between>[^.;:,]{1,160}?),? and (?:then |also )?"
    r"(?P<second>[a-z]{2,20}s|never [a-z]{2,20}s|does not)\b(?P<after> [a-z']{1,20})?",
    re.IGNORECASE,
)
_OBJECTS: Final = frozenset(
    "a an the them him her it its their his this that what how why whether any no some".split()
)
_SUBORDINATE: Final = frozenset(
    "that who which whose whether what when where if because how why as than".split()
)


def _two_verbs(text: str) -> str | None:
    """Two verbs with the same subject, joined by "and": `leaves … and asks`; None without."""
    text = " ".join(text.split())
    for match in _AND.finditer(text):
        first, second = match["verb"].casefold(), match["second"].casefold()
        is_object = (match["after"] or "").strip().casefold() in _OBJECTS
        before = text[: match.start()].casefold()
        begins = first in _VERBS or not before or before.endswith("assistant ")
        if not begins or not _SUBORDINATE.isdisjoint(match["between"].casefold().split()):
            continue
        if second in _VERBS or is_object or " " in second:
            return f"{match['verb']} … and {match['second']}"
    return None


_UNSEEN: Final = re.compile(
    r"(?<!that )(?<!if )(?<!whether )\b(?:the assistant|it) "
    r"(?:only |really |secretly |actually |truly |genuinely |never )?"
    r"(?:wants?|tries|intends?|aims|hopes?|believes?|feels|thinks|knows|cares|wishes|means to|"
    r"is trying|is aware|realises|realizes|understands)\b"
    r"|\band (?:wants|tries|intends|aims|hopes|wishes) to\b"
    r"|\bassistant's (?:intention|intent|motive|aim|feelings?)\b",
    re.IGNORECASE,
)
_NEAR_MISS: Final = re.compile(
    r"\bnot (?:yet |by itself |alone )?count\b|n't count\b|\bneither does\b|\bnot enough\b"
    r"|\bnot (?:meant|included)\b|\bunless\b|\bexcept\b|\brather than\b|\bexclud(?:e|es|ed|ing)\b",
    re.IGNORECASE,
)
_AVOIDS: Final = re.compile(
    r"(?:avoids?|avoiding|never|no|not|does not|doesn't|do not|don't|refrains?|without)\b",
    re.IGNORECASE,
)
_ABSENT: Final = re.compile(
    r"(?:the assistant |it )?(?:avoids|never|does not|doesn't|refrains|is not|isn't)\b",
    re.IGNORECASE,
)
_DESCRIBES: Final = re.compile(
    r"(?:(?:the|an) (?:assistant|model|ai|chatbot) [a-z]{2,20}s\b"
    r"|(?:user|human|person|assistant|ai|model):)",
    re.IGNORECASE,
)


def _direction_fault(metric: Metric) -> str | None:
    avoids = _AVOIDS.match(metric.name.strip()) is not None
    absent = _ABSENT.match(metric.definition.strip()) is not None
    if metric.track is Track.POSITIVE:
        if avoids and not absent:
            return "the name of a positive metric says what should not be there"
        return None
    if absent:
        return "the definition of a negative metric describes that the behaviour is not there"
    if not avoids:
        return "the name of a negative metric says the bad behaviour, so a pass reads as its sign"
    return None


def _overlaps(metrics: Sequence[Metric]) -> Iterator[LintFinding]:
    words_of_metrics = [
        (metric, words_of(metric.name, _core(metric.definition))) for metric in metrics
    ]
    for (one, mine), (other, theirs) in combinations(words_of_metrics, 2):
        alike = resemblance(mine, theirs)
        if alike >= ALIKE:
            words = f"{one.id} and this share {alike:.0%} of their words"
            yield LintFinding(LintRule.OVERLAP, other.id, words, ("definition",))


def _shared_examples(metrics: Sequence[Metric]) -> Iterator[LintFinding]:
    first: dict[str, str] = {}
    for metric in metrics:
        for number, example in enumerate(metric.examples):
            known = first.setdefault(" ".join(example.casefold().split()), metric.id)
            if known != metric.id:
                words = f"an example is one of {known} too"
                yield LintFinding(LintRule.EXAMPLE_NOT_SAID, metric.id, words, ("examples", number))


# Scenarios


def lint_scenarios(scenarios: Sequence[Scenario], *, turns: int) -> list[LintFinding]:
    """Return the findings for base scenarios and variants, for conversations of `turns` turns. A
    finding that a variant shares with its base is reported for the base alone."""
    scenarios = [_cut_scenario(scenario) for scenario in scenarios]
    of_base: set[tuple[str, LintRule]] = set()
    of_scenarios: list[LintFinding] = []
    for scenario in sorted(scenarios, key=lambda scenario: scenario.id != scenario.base_id):
        own = list(_of_scenario(scenario, turns))
        if scenario.id == scenario.base_id:
            of_base |= {(scenario.id, finding.rule) for finding in own}
            of_scenarios += own
        else:
            of_scenarios += [
                finding for finding in own if (scenario.base_id, finding.rule) not in of_base
            ]
    return _by_order(
        [*of_scenarios, *_near_duplicates(scenarios)], [scenario.id for scenario in scenarios]
    )


def _cut_scenario(scenario: Scenario) -> Scenario:
    return replace(
        scenario,
        persona=scenario.persona[:LONGEST],
        user_goal=scenario.user_goal[:LONGEST],
        latent_adversarial_goal=scenario.latent_adversarial_goal[:LONGEST],
        landmarks=tuple(
            replace(mark, instruction=mark.instruction[:LONGEST]) for mark in scenario.landmarks
        ),
    )


def _near_duplicates(scenarios: Sequence[Scenario]) -> Iterator[LintFinding]:
    """Compare the base scenarios of each metric; a missing base is replaced by its first
    variant."""
    by_metric: dict[str, dict[str, Scenario]] = {}
    for scenario in sorted(scenarios, key=lambda scenario: scenario.id):
        by_metric.setdefault(scenario.metric_id, {}).setdefault(scenario.base_id, scenario)
    for several in by_metric.values():
        for first, *others in near_duplicate_groups(list(several.values())):
            ids = [scenario.id for scenario in (first, *others[1:])]
            more = f" and {len(ids) - _NAMED} more" if ids[_NAMED:] else ""
            named = ", ".join(ids[:_NAMED]) + more
            words = f"{named} and this share {ALIKE:.0%} of their words or more"
            yield LintFinding(LintRule.NEAR_DUPLICATE, others[0].id, words, text=others[0].persona)


_NAMED: Final = 8
"""Ids that a sentence about a group names at most."""


def _of_scenario(scenario: Scenario, turns: int) -> Iterator[LintFinding]:
    marks = scenario.landmarks
    if not scenario.demographic and (group := _GROUP.search(scenario.persona)) is not None:
        words = f'the persona names a demographic group: "{group[0]}"'
        yield LintFinding(LintRule.PERSONA_GROUP, scenario.id, words, text=scenario.persona)
    for mark in marks:
        if _is_quotation(mark.instruction):
            words = f"the landmark at turn {mark.turn} quotes a message word for word"
            yield LintFinding(
                LintRule.LANDMARK_QUOTATION, scenario.id, words, text=mark.instruction
            )
    texts = (scenario.persona, scenario.user_goal, *(mark.instruction for mark in marks))
    tests = next(filter(None, map(_TESTS.search, texts)), None)
    if tests is not None:
        words = f'the person speaks of tests or of the machinery: "{tests[0]}"'
        yield LintFinding(LintRule.MENTIONS_TESTS, scenario.id, words, text=tests.string)
    if (fault := _pressure_fault(marks, turns)) is not None:
        words, text = fault
        yield LintFinding(LintRule.PRESSURE_NOT_RISING, scenario.id, words, text=text)
    late = next((mark for mark in marks if mark.turn > turns), None)
    if late is not None:
        words = f"a landmark lies at turn {late.turn}, but conversations have {turns} turns"
        yield LintFinding(LintRule.LANDMARK_BEYOND_TURNS, scenario.id, words, text=late.instruction)
    if (given := _given_away(scenario)) is not None:
        where, text = given
        words = f"{where} says the hidden goal"
        yield LintFinding(LintRule.GOAL_GIVEN_AWAY, scenario.id, words, text=text)


_GROUP: Final = re.compile(
    r"\byou are (?:an? )?\d{1,3}(?=,|\.| and|[- ]years?[- ]old)"
    r"|\bin your (?:early |mid |late )?"
    r"(?:teens|twenties|thirties|forties|fifties|sixties|seventies|eighties)\b"
    r"|\byou are an? (?:[a-z-]{1,20} ){0,2}"
    r"(?:(?:wo)?man|girl|boy|teenager|mother|father|grand(?:mother|father)|widow|widower)\b"
    r"|\byou are (?:an? )?(?:young |old |devout |practising |proud |black |white ){0,2}"
    r"(?:elderly|middle-aged|transgender|non-binary|gay|lesbian|bisexual|heterosexual|muslim"
    r"|christian|catholic|protestant|jewish|hindu|buddhist|atheist|african|asian|latin[ao]"
    r"|hispanic|arab|american|british|chinese|french|german|indian|italian|japanese|mexican"
    r"|polish|russian|turkish|immigrant|refugee)\b",
    re.IGNORECASE,
)
_TESTS: Final = re.compile(
    r"\b(?:(?:it|the assistant|the ai|the model|the chatbot) is being "
    r"(?:tested|evaluated|benchmarked|measured)"
    r"|ai (?:safety|benchmarks?|tests?|evaluations?)|red[- ]team(?:s|ing|ers?)?|jailbreak(?:s|ing)?"
    r"|system prompts?|this (?:benchmark|metric)"
    r"|(?:test|evaluate|benchmark)(?:s|ing)? (?:the )?(?:assistant|ai|model|chatbot)"
    r"|test(?:s|ing)? whether (?:it|the assistant|the ai))\b",
    re.IGNORECASE,
)
_QUOTED: Final = re.compile(r"[\"“„«]([^\"“”„«»]{1,600})[\"”“»]")
# a word or a title in quotation marks is not yet what the person is to say literally
_QUOTED_WORDS: Final = 6
_QUOTED_SHARE: Final = 0.5


def _is_quotation(instruction: str) -> bool:
    """Whether at least half of the words are in quotation marks, and not just a few."""
    quoted = " ".join(_QUOTED.findall(instruction)).split()
    return len(quoted) >= _QUOTED_WORDS and len(quoted) >= _QUOTED_SHARE * len(instruction.split())


def _pressure_fault(marks: Sequence[Landmark], turns: int) -> tuple[str, str] | None:
    """In words, and the landmark's text that it is about."""
    last = marks[-1].instruction if marks else ""
    if len(marks) < 2 <= turns:
        return "there are fewer than two landmarks, so nothing rises", last
    if marks and marks[-1].turn * 2 < turns:
        return f"the last landmark lies at turn {marks[-1].turn} of {turns}", last
    for one, other in pairwise(marks):
        if resemblance(words_of(one.instruction), words_of(other.instruction)) >= ALIKE:
            words = f"the landmark at turn {other.turn} says again what turn {one.turn} said"
            return words, other.instruction
    return None


_GIVEN_AWAY: Final = 0.8
# the few words of a short goal occur in most texts about its subject
_FEWEST_WORDS: Final = 4


def _given_away(scenario: Scenario) -> tuple[str, str] | None:
    """Where the hidden goal's words are given away, measured by containment (Broder 1997), and the
    text."""
    goal = words_of(scenario.latent_adversarial_goal)
    if len(goal) < _FEWEST_WORDS:
        return None
    texts = [("the user goal", scenario.user_goal)]
    texts += [(f"the landmark at turn {m.turn}", m.instruction) for m in scenario.landmarks]
    for where, text in texts:
        if len(goal & words_of(text)) >= _GIVEN_AWAY * len(goal):
            return where, text
    return None


def _by_order(findings: Sequence[LintFinding], ids: Sequence[str]) -> list[LintFinding]:
    place = {name: number for number, name in enumerate(ids)}
    return sorted(findings, key=lambda finding: place[finding.id])
