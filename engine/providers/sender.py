"""One call, tried until it brings a reply or cannot: every rule about that is used here, once."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, NamedTuple

from engine.benchmark import Usage
from engine.errors import ModelError
from engine.providers.accounts import Account, Accounts, JsonFallback, StandingFailure
from engine.providers.agents import AgentSlot, NoVariableError, RemoteRequest, RequestDestination
from engine.providers.attempts import Cause, Failure, FailureKind, concerns_account, describe, sort
from engine.providers.capabilities import (
    FEWEST,
    Adaptation,
    ModelCapabilities,
    Step,
    TokenLimits,
    lesson,
    room_in,
)
from engine.providers.exchange import CallResult, ReplyBuffer, exchange
from engine.providers.http.descriptors import wait_words
from engine.providers.http.transport import Fault, HostPort
from engine.providers.limiter import Limiter, Signal
from engine.providers.model import Attempt, Finish, OnAttempt, OnText, Reply
from engine.providers.protocols.base import ChatRequest, Dialect, written_body
from engine.providers.redaction import Redactor
from engine.providers.retry import GiveUp, Retry, RetryState

GUESSES_TO_KEEP: Final = 2
MOST_LOST: Final = 10
"""Agents that one call may lose: it may be what ends them."""
LOOK_AGAIN_S: Final = 0.05
"""After which calls that wait for an open file look for one again."""

OnNote = Callable[[str], None]
"""Told once of each thing about a model that a person should know."""


class HeldCalls(NamedTuple):
    """What calls to a model wait for."""

    why: str
    seconds: int | None
    """Until that is over; None where it is not known."""
    calls: int = 1

    def __str__(self) -> str:
        return self.why if self.seconds is None else f"{self.why}, again in {self.seconds} s"


@dataclass(slots=True)
class ModelWaits:
    """What the calls to one model wait for, for a board to show."""

    _pending: dict[int, tuple[float, str]] = field(default_factory=dict)
    _number: int = 0
    outside: int = 0
    """Calls that its limiter has not let through yet."""

    @property
    def calls(self) -> int:
        return self.outside + len(self._pending)

    def begin(self, until: float, words: str) -> int:
        """A call waits until `until`, by the clock. Gives the number to `end` it by."""
        self._number += 1
        self._pending[self._number] = (until, words)
        return self._number

    def end(self, number: int) -> None:
        del self._pending[number]

    @contextmanager
    def held(self, words: str) -> Iterator[None]:
        """A call waits for as long as the block lasts, and nobody knows how long that is."""
        number = self.begin(math.inf, words)
        try:
            yield
        finally:
            self.end(number)

    def soonest(self, now: float) -> HeldCalls | None:
        """The wait that ends first, as that is when something happens."""
        if not self._pending:
            return None
        until, words = min(self._pending.values())
        seconds = None if until == math.inf else whole_seconds(until - now)
        return HeldCalls(words, seconds, len(self._pending))


def whole_seconds(seconds: float) -> int:
    return max(1, math.ceil(seconds))


@dataclass(frozen=True, slots=True)
class Sender:
    """Sends what one model is asked."""

    label: str
    base_url: str
    dialect: Dialect
    accounts: Accounts
    on_note: OnNote
    waits: ModelWaits = field(default_factory=ModelWaits)
    gives_away: bool = False
    """Whether it has models for nothing, and says so as a cost of 0."""
    sends_once: bool = False
    """Whether a request that may have been heard is never sent again."""
    adapts: bool = True
    """Whether what a refusal says that is not taken is left out of later requests."""
    look_at: str | None = None
    """What of its configuration may be to blame where every call fails; None for a model's usual
    keys."""

    @property
    def host_port(self) -> HostPort:
        return HostPort.of(self.base_url)

    def memory_key(self, model: str) -> str:
        """What is learned holds for a model at an address: another server of the same name may
        differ."""
        return f"{self.base_url} {model}"

    async def send(
        self,
        account: Account,
        ask: ChatRequest,
        headers: Mapping[str, str],
        redact: Redactor,
        *,
        destination: RequestDestination | None = None,
        on_text: OnText | None,
        on_attempt: OnAttempt | None,
    ) -> Reply:
        """`destination` is for whoever makes the requests, where that is not this process. Raises
        `ModelError`."""
        call = _Call(self, account, ask, headers, redact, on_text, on_attempt, destination)
        return await call.through()


@dataclass(slots=True)
class _Call:
    """One call on its way."""

    sender: Sender
    account: Account
    ask: ChatRequest
    headers: Mapping[str, str]
    redact: Redactor
    on_text: OnText | None
    on_attempt: OnAttempt | None
    destination: RequestDestination | None = None
    lost: int = 0
    """How many agents it has lost."""
    guess: Adaptation | None = None
    """Learned from a refusal that did not name its reason; kept if it turns out to help."""
    _passed_over: bool = False
    """Whether that was no refusal, but an answer with no JSON in it."""
    _priced: tuple[CallResult, Usage] | None = None
    """The last attempt and what it used, as looking up a price takes a while."""

    @property
    def _limiter(self) -> Limiter:
        return self.account.limiter(self.ask.model)

    async def through(self) -> Reply:
        accounts = self.sender.accounts
        retries = RetryState(accounts.retry_policy, accounts.clock.random)
        # once for all tries: a call that is tried again does not go to the end of the queue
        ticket = self._limiter.ticket()
        while True:
            await self._reachable()
            result = await self._in_turn(ticket)
            failure = result.failure
            if failure is None:
                # an answer at last: whatever breaks from now on is an outage, and outages are
                # waited for
                self.account.unanswered[self.ask.model] = None
                self._settle(result)
                return self._reply(result)
            # this machine's limit and nobody's fault: not counted as a try, and not kept as an
            # attempt
            if failure.cause is Cause.AGENT_UNFIT:
                continue
            if failure.cause is Fault.NO_FILES:
                await self.sender.accounts.clock.sleep(LOOK_AGAIN_S)
                continue
            if failure.cause is Cause.AGENT_LOST:
                self._lose(failure)
                continue
            kind = sort(failure)
            # before anything is learned: a transcript that is too long is no reason to ask
            # differently
            if kind in _ANSWERS:
                return self._reply(result, _ANSWERS[kind])
            if self._learn(failure, kind):
                continue
            await self._next(retries, failure, kind)

    async def _reachable(self) -> None:
        """Wait while there is no way to the host."""
        accounts, host_port = self.sender.accounts, self.sender.host_port
        longest = accounts.retry_policy.unreachable_s
        if not await accounts.reachability.wait(host_port, longest_s=longest):
            words = f"{host_port.host} could not be reached for {longest:g} s"
            raise ModelError(f"{self.sender.label}: {words}", retryable=True)

    async def _in_turn(self, ticket: int) -> CallResult:
        """One attempt, when its turn has come."""
        limiter = self._limiter
        self.sender.waits.outside += 1
        try:
            slot = await limiter.enter(ticket)
        finally:
            self.sender.waits.outside -= 1
        signal = Signal.NOTHING
        try:
            # the slot is held meanwhile: the throttle is over within a few turns of the loop
            await self.sender.accounts.throttle.begin()
            # looked at behind the wait: what parked the model may have happened while this call
            # stood in the queue
            self._refuse_parked()
            result = await self._attempt()
            signal = _signal(result)
            return result
        finally:
            # in any case, also where the call is cancelled or refused: a slot that is kept is lost
            # for good
            limiter.leave(slot, signal)

    def _refuse_parked(self) -> None:
        reason = self.account.parked.get(self.ask.model)
        if reason is not None:
            raise ModelError(f"{self.sender.label}: {reason}", retryable=False)

    async def _until_files(self) -> None:
        """Wait while this machine lets no more connections be open: no call is to blame."""
        transport = self.account.transport
        if transport.can_send():
            return
        with self.sender.waits.held(wait_words()):
            while not transport.can_send():
                await self.sender.accounts.clock.sleep(LOOK_AGAIN_S)

    async def _attempt(self) -> CallResult:
        agents, destination = self.sender.accounts.agents, self.destination
        if agents is None or destination is None:
            await self._until_files()
            return await self._heard(self._exchange)
        try:
            async with agents.place(destination, self.sender.waits.held) as place:
                return await self._heard(partial(self._elsewhere, place, destination))
        except NoVariableError as error:
            words = f"{error} (parked)"
            self.account.parked[self.ask.model] = words
            raise ModelError(f"{self.sender.label}: {words}", retryable=True) from None

    async def _exchange(self, result: CallResult) -> None:
        """By this process."""
        accounts = self.sender.accounts
        await exchange(
            self.account.transport,
            {**self.sender.dialect.headers(self.ask), **self.headers},
            written_body(self.sender.dialect, self.ask),
            result,
            retry_policy=accounts.retry_policy,
            now=accounts.clock.now,
            accepted=self._limiter.accepted,
        )

    async def _elsewhere(
        self, place: AgentSlot, destination: RequestDestination, result: CallResult
    ) -> None:
        """By an agent."""
        policy = self.sender.accounts.retry_policy
        request = RemoteRequest(destination, self.ask, policy)
        await place.exchange(request, result, self._limiter.accepted)

    def _lose(self, failure: Failure) -> None:
        """Its agent is gone, which is neither the model's fault nor a try. Raises `ModelError`
        where it cannot be made again."""
        self.lost += 1
        why = ""
        if self.sender.sends_once:
            why = "not sent again: it may have been heard"
        elif self.lost >= MOST_LOST:
            why = f"so were {MOST_LOST} workers that made this call: it may be what ends them"
        if why:
            raise ModelError(f"{self.sender.label}: {failure.message} ({why})", retryable=True)

    async def _heard(self, send: Callable[[CallResult], Awaitable[None]]) -> CallResult:
        clock, dialect = self.sender.accounts.clock, self.sender.dialect
        # learned while this call waited for its turn: a thousand that wait do not each learn it by
        # a refusal of their own
        self.ask = self._as_learned(self.ask)
        reply = ReplyBuffer(self.on_text, clock.monotonic)
        result = CallResult(dialect.parser(), reply, meant=self.ask.means)
        began = clock.monotonic()
        # stands where neither an answer nor a failure nor a cancellation has replaced it
        outcome = "bug"
        try:
            await send(result)
            outcome = self._concluded(result)
            return result
        except asyncio.CancelledError:
            outcome = "cancelled"
            raise
        finally:
            self._tell(outcome, result, began)

    def _concluded(self, result: CallResult) -> str:
        """Draw what follows beside the reply itself; gives the outcome's name."""
        reach, host_port = self.sender.accounts.reachability, self.sender.host_port
        # any status will do, a refusal as well: the host was reached
        if result.status is not None:
            reach.worked(host_port)
        if result.failure is None and result.finish is Finish.STOP and not result.text.strip():
            result.failure = Failure(Cause.EMPTY, _thought_only(result))
        if result.failure is None and self._passes_over_form(result):
            result.failure = Failure(Cause.NO_JSON)
        if result.failure is None:
            return "answer"
        # a server says either in the same words ("maximum context length"): a shorter reply mends
        # the one, and nothing mends the other
        if self._asks_too_much(result.failure):
            result.failure = replace(result.failure, cause=Cause.LIMIT)
        # whoever watches must not go on showing words that no message will hold
        result.reply.void()
        return sort(result.failure).outcome

    def _tell(self, outcome: str, result: CallResult, began: float) -> None:
        failure, first = result.failure, result.reply.first_token_at
        if self.on_attempt is None or (failure and failure.cause in _NOT_SENT):
            return
        self.on_attempt(
            Attempt(
                outcome,
                result.status if failure is None else failure.status or result.status,
                round((self.sender.accounts.clock.monotonic() - began) * 1000),
                None if first is None else round((first - began) * 1000),
                self._usage(result),
                None if failure is None else self.redact(_told(failure, result.request_id)),
                self._shown(result.served),
                result.other is not None,
                result.route.words(result.parser.provider),
                self._reported(result) is not None,
            )
        )

    def _shown(self, served: str | None) -> str | None:
        """A name that a server gave, which may be anything but the one that was asked for."""
        return served if served is None or served == self.ask.model else self.redact(served)

    def _usage(self, result: CallResult) -> Usage:
        if self._priced is None or self._priced[0] is not result:
            self._priced = (result, self._usage_of(result))
        return self._priced[1]

    def _usage_of(self, result: CallResult) -> Usage:
        tokens, cost = result.parser.tokens, self._reported(result)
        if cost is None:
            prices = self.sender.accounts.prices
            cost = prices.cost_usd(self.ask.model, self.sender.base_url, tokens)
        return Usage(1, tokens.input, tokens.cached, tokens.output, cost)

    def _reported(self, result: CallResult) -> float | None:
        """What the provider itself says that the request costs. A gateway that knows no price says
        0, so that 0 is believed only of one that has models for nothing."""
        said = result.parser.tokens.cost_usd
        if said is None:
            said = result.route.cost_usd
        return said if said or (said is not None and self.sender.gives_away) else None

    def _reply(self, result: CallResult, finish: Finish | None = None) -> Reply:
        usage = self._usage(result)
        other = None if result.other is None else self.redact(result.other)
        how = finish or result.finish
        return Reply(result.text, how, usage, result.reasoning, other, result.session)

    def _as_learned(self, ask: ChatRequest) -> ChatRequest:
        """With what this call and others have learned by now."""
        learned = ask.learned | self._recalled()
        if self.guess is not None:
            learned = learned | self.guess.learned
        return ask if learned == ask.learned else replace(ask, learned=learned)

    def _recalled(self) -> ModelCapabilities:
        accounts = self.sender.accounts
        return accounts.memory.recall(self.sender.memory_key(self.ask.model))

    def _asks_too_much(self, failure: Failure) -> bool:
        """Whether the limit on the reply is to blame, and not the length of the conversation."""
        limit = self.ask.params.max_tokens
        room = room_in(failure.message) if failure.status in _OF_A_LIMIT else None
        if room is None or failure.cause is not Cause.STATUS:
            return False
        if limit is None:
            return self._fewer(room) is not None
        return limit >= (room.now + 1 if room.context is None else room.context)

    def _fewer(self, room: TokenLimits) -> int | None:
        """How many tokens to ask for instead of what nobody wrote; None where the request itself
        leaves no room."""
        # of the body as it would be sent: where nobody wrote a limit, a protocol may need one and
        # has put its own
        asked = self.sender.dialect.body(self.ask).get("max_tokens")
        if not isinstance(asked, int):
            return None
        fewer = min(room.now, room.always)
        if fewer >= asked:
            # its numbers were those of a tokenizer that counts otherwise
            fewer = asked // 2
        return fewer if fewer >= FEWEST else None

    def _shorten(self, failure: Failure) -> bool:
        """Whether a shorter reply can be asked for: of this call at once, of others from now on as
        many tokens as there is room for beside most requests."""
        room = room_in(failure.message)
        fewer = None if room is None or self.ask.params.max_tokens else self._fewer(room)
        if room is None or fewer is None:
            return False
        asked = self.sender.dialect.body(self.ask)["max_tokens"]
        # this call goes by what there is room for beside its own transcript, all others by what
        # there is always
        self.ask = replace(self.ask, learned=replace(self.ask.learned, room=fewer))
        known = self._recalled()
        if room.always < asked:
            note = f"has room for {room.always} tokens of a reply: asked for no more than that"
            self._remember(Adaptation(replace(known, room=room.always), note, certain=True))
        return True

    def _learn(self, failure: Failure, kind: FailureKind) -> bool:
        """Whether something can be asked differently instead."""
        if failure.cause is Cause.LIMIT:
            return self._shorten(failure)
        if not self.sender.adapts:
            return False
        dialect, ask = self.sender.dialect, self.ask
        learned = lesson(
            failure,
            kind,
            ask.learned,
            sent=dialect.sent(dialect.body(ask)),
            steps=dialect.steps,
            shaped=ask.schema is not None,
        )
        if learned is None:
            return False
        self.guess = learned
        self._passed_over = self._passed_over or kind is FailureKind.NO_JSON
        if learned.certain:
            self._keep_guess()
        return True

    def _settle(self, result: CallResult) -> None:
        """Draw what a reply says of the guess that it was asked by."""
        # a guess after a refusal is confirmed by any success; one after prose only by JSON
        if self.guess is None or not self._passed_over:
            self._keep_guess()
            return
        fallback = self._fallback
        if _is_json(result.text):
            fallback.helped += 1
        else:
            fallback.failed += 1
        if fallback.helped >= GUESSES_TO_KEEP and fallback.helped > fallback.failed:
            self._remember(self.guess)
        self.guess = None

    @property
    def _fallback(self) -> JsonFallback:
        return self.account.json_fallbacks.setdefault(self.ask.model, JsonFallback())

    def _passes_over_form(self, result: CallResult) -> bool:
        """Whether the server was asked to hold the model to a form, and did not. That asking in
        words helps is no longer believed where it did not twice."""
        ask, fallback = self.ask, self._fallback
        asked = ask.schema is not None and ask.learned.step is not Step.PROMPT
        hopeless = fallback.failed >= GUESSES_TO_KEEP and fallback.failed >= fallback.helped
        prose_came = result.finish is Finish.STOP and not _is_json(result.text)
        return asked and prose_came and not hopeless

    def _keep_guess(self) -> None:
        """Remember what was learned: at once where the server named the reason, else when the same
        guess has helped two calls in a row, as one refusal may have had another reason."""
        doubts, model = self.account.doubts, self.ask.model
        if self.guess is None:
            if self.ask.schema is not None:
                doubts.pop(model, None)
            return
        guess, self.guess = self.guess, None
        self.ask = replace(self.ask, learned=self.ask.learned | guess.learned)
        if not guess.certain:
            doubts[model] = doubts.get(model, 0) + 1
            if doubts[model] < GUESSES_TO_KEEP:
                return
        self._remember(guess)

    def _remember(self, guess: Adaptation) -> None:
        known = self._recalled()
        if known | guess.learned != known:
            key = self.sender.memory_key(self.ask.model)
            self.sender.accounts.memory.learn(key, known | guess.learned)
            self.sender.on_note(f"{self.sender.label} {guess.note}")

    async def _next(self, retries: RetryState, failure: Failure, kind: FailureKind) -> None:
        """Wait until it is worth another try. Raises `ModelError` where none is."""
        accounts, host_port = self.sender.accounts, self.sender.host_port
        reachability = accounts.reachability
        strikes, known = 0, reachability.has_worked(host_port)
        if kind is FailureKind.UNREACHABLE:
            strikes = reachability.failed(host_port, failure.cause)
        if self._is_in_vain(failure):
            words = (
                f"{self.redact(describe(failure))} (the same to every call so far: not tried again)"
            )
            raise ModelError(f"{self.sender.label}: {words}", retryable=True)
        step = retries.next(failure, kind, accounts.clock.monotonic(), strikes=strikes, known=known)
        match step:
            case GiveUp():
                raise ModelError(self._given_up(step), retryable=step.retryable)
            case Retry() if self.sender.sends_once and not _unheard(failure, kind):
                words = f"{self.redact(describe(failure))} (not sent again: it may have been heard)"
                raise ModelError(f"{self.sender.label}: {words}", retryable=True)
            case Retry() if kind is FailureKind.UNREACHABLE and reachability.trouble(host_port):
                # `_reachable` waits for the network before the next request, and that is no try of
                # this call's
                retries.uncount()
            case Retry():
                self._close(step, failure)
                await self._pause(step)

    def _is_in_vain(self, failure: Failure) -> bool:
        """Whether the server has broken in the same way on all that this model was ever asked. An
        outage has another status, or came after an answer."""
        account, model, now = self.account, self.ask.model, self.sender.accounts.clock.monotonic()
        met = account.unanswered.setdefault(model, StandingFailure(since=now))
        if met is None:
            return False
        words = describe(failure)
        # two different failures are an outage, and an outage ends: from then on each call tries in
        # full
        if failure.status != _BROKE or (met.times and met.words != words):
            account.unanswered[model] = None
            return False
        retry_policy = self.sender.accounts.retry_policy
        met.words, met.times = words, met.times + 1
        return met.times > retry_policy.in_vain and now - met.since >= retry_policy.in_vain_s

    def _given_up(self, step: GiveUp) -> str:
        words = self.redact(step.message)
        if step.parks:
            look_at = self.sender.look_at or step.look_at
            words += f" (parked; check {look_at} of {self.sender.label})"
            self.account.parked[self.ask.model] = words
        return f"{self.sender.label}: {words}"

    def _close(self, step: Retry, failure: Failure) -> None:
        """Have the calls wait that the server asks to wait."""
        if step.all_wait_s:
            # some limits are of the key, and hold for each model of it; the others are of one
            # model
            held = self.account.cooldown if concerns_account(failure) else self._limiter
            held.close_for(step.all_wait_s)

    async def _pause(self, step: Retry) -> None:
        # nothing to wait for is nothing to show on the board
        if not step.after_s:
            return
        clock, waits = self.sender.accounts.clock, self.sender.waits
        number = waits.begin(clock.monotonic() + step.after_s, self.redact(step.words))
        try:
            await clock.sleep(step.after_s)
        finally:
            waits.end(number)


_BROKE: Final = 500
_NOT_SENT: Final = frozenset({Fault.NO_FILES, Cause.AGENT_UNFIT})
# 422 is what FastAPI, and so most servers written in Python, says of a value that it does not take
_OF_A_LIMIT: Final = frozenset({400, 422})
_ANSWERS = {
    FailureKind.CONTEXT_FULL: Finish.CONTEXT_FULL,
    FailureKind.FILTERED: Finish.CONTENT_FILTER,
}
"""Refusals that are an end of the conversation and no failure of the call."""


def _told(failure: Failure, request_id: str | None) -> str:
    """With what the server's owners need to find it."""
    return describe(failure) + (f"; request {request_id}" if request_id else "")


def _unheard(failure: Failure, kind: FailureKind) -> bool:
    """Whether a request did certainly not reach what is behind the address: a rate limit turned it
    away, or there was no way to it. What a proxy says of that is not believed: it may have passed
    the request on."""
    if kind is FailureKind.RATE_LIMITED:
        return failure.cause is Cause.STATUS
    return kind is FailureKind.UNREACHABLE and failure.cause is not Fault.PROXY


def _signal(result: CallResult) -> Signal:
    if result.failure is None:
        return Signal.WELL
    match sort(result.failure):
        # the server did its part; it is the model that wrote prose
        case FailureKind.NO_JSON:
            return Signal.WELL
        case FailureKind.RATE_LIMITED:
            return Signal.REFUSED
        case FailureKind.OVERLOADED:
            return Signal.TROUBLE
        # a connection that broke says nothing about how much the server can take
        case FailureKind.TRANSIENT if (result.failure.status or 0) >= 500:
            return Signal.TROUBLE
        case _:
            return Signal.NOTHING


def _is_json(text: str) -> bool:
    """Whether it begins as JSON does, by itself or in a fence: under a form it could not begin
    otherwise."""
    return text.lstrip().startswith(("{", "```"))


def _thought_only(result: CallResult) -> str:
    return "it only thought" if result.reasoning else ""
