"""Sends one call until it has a reply or has failed: applies every rule about that."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import Final

from engine.benchmark import Usage
from engine.errors import ModelError
from engine.identity import BATCH_ROUTE
from engine.providers.accounts import (
    FILTERED_IN_A_ROW,
    Account,
    Accounts,
    AgentSlot,
    ModelState,
    NoVariableError,
    Parking,
    RemoteRequest,
    RequestDestination,
)
from engine.providers.attempts import classify, concerns_account, describe
from engine.providers.batches.queue import SHARE, BatchTransport
from engine.providers.capabilities import (
    FEWEST,
    Adaptation,
    ModelCapabilities,
    Step,
    TokenLimits,
    adaptation_from,
    refused_setting,
    room_in,
)
from engine.providers.exchange import CallResult, ReplyBuffer, exchange
from engine.providers.failures import Cause, Failure, FailureKind, Next, Signal
from engine.providers.http.transport import HostPort
from engine.providers.limiter import ModelWaits
from engine.providers.model import Attempt, Finish, OnAttempt, OnText, Reply
from engine.providers.pricing import SERVICE_TIER, Price
from engine.providers.protocols.base import (
    CALLS_A_TOOL,
    ChatRequest,
    Dialect,
    left_out,
    written_body,
)
from engine.providers.redaction import Redactor
from engine.providers.retry import (
    LOOK_AGAIN_S,
    SERVER_ERROR,
    GiveUp,
    Retry,
    RetryPolicy,
    RetryState,
)

GUESSES_TO_KEEP: Final = 2
FAILURES_UNDER_FORM: Final = 3

OnNote = Callable[[str], None]
"""Called once with each thing about a model that a person should know."""


@dataclass(frozen=True, slots=True)
class Sender:
    """What all calls to one model are sent by."""

    label: str
    base_url: str
    dialect: Dialect
    accounts: Accounts
    on_note: OnNote
    waits: ModelWaits = field(default_factory=ModelWaits)
    price: Price | None = None
    """The user's own price."""
    gives_away: bool = False
    """Whether it has free models, and reports their cost as 0."""
    sends_once: bool = False
    """Whether a request that may have been received is never sent again."""
    adapts: bool = True
    """Whether parameters that a server refuses are left out of later requests."""
    refusals: list[str] = field(default_factory=list)
    """Why every request with this configuration is refused; another configuration of the same model
    is not affected."""
    hide: Redactor = field(default_factory=lambda: Redactor([]))
    """Hides what is secret in its name and its address."""
    look_at: str | None = None
    """The parts of its configuration that may be wrong if every call fails; None for the usual keys
    of a model."""

    @property
    def host_port(self) -> HostPort:
        return HostPort.of(self.base_url)

    def memory_key(self, model: str) -> str:
        """Return the key of what is learned about a model: another server's model of the same name
        may differ."""
        return self.hide.hidden(f"{self.base_url} {model}")


@dataclass(slots=True)
class Call:
    """A call in progress: a request that is sent until it has a reply or has failed."""

    sender: Sender
    account: Account
    ask: ChatRequest
    headers: Mapping[str, str]
    redact: Redactor
    on_text: OnText | None
    on_attempt: OnAttempt | None
    destination: RequestDestination | None = None
    """For workers that send requests instead of this process."""
    batch: BatchTransport | None = None
    """For calls that are made in batches."""
    guess: Adaptation | None = None
    """Learned from a refusal without a stated reason; kept if it turns out to help."""
    _guessed_from_prose: bool = False
    """Whether the guess came from an answer without JSON instead of a refusal."""
    _server_errors: int = 0
    _without_form: bool = False
    """Whether it goes on without a form, under which the server kept failing."""
    _doubted: bool = False
    """Whether a reply without a reason for its end was asked for again."""
    _priced: tuple[CallResult, Usage] | None = None
    """The last attempt and its usage, cached as looking up a price is slow."""

    @property
    def _model(self) -> ModelState:
        return self.account.model(self.ask.model)

    async def run(self) -> Reply:
        """Return the reply. Raises `ModelError`, and `StopRequested` where it waits at a stop."""
        accounts = self.sender.accounts
        retries = RetryState(
            self._retry_policy,
            accounts.clock.random,
            self._model.history,
            sends_once=self.sender.sends_once,
        )
        # once for all tries: a call that is retried does not go to the end of the queue
        ticket = self._model.limiter.ticket()
        while True:
            await self._wait_until_reachable()
            result = await self._attempt_in_turn(ticket)
            failure = result.failure
            if failure is None:
                # an answer at last: any later failure is an outage, which is waited for
                self._note_answer(result)
                return self._reply(result)
            match self._next_step(retries, failure):
                case Finish() as finish:
                    self._count_filtered(finish)
                    return self._reply(result, finish)
                case GiveUp() as step:
                    raise ModelError(self._given_up(step, failure), retryable=step.retryable)
                case Retry() as step:
                    self._close(step, failure)
                    await self._pause(step)

    def _next_step(self, retries: RetryState, failure: Failure) -> Finish | Retry | GiveUp:
        """Return what comes after a failure, and change the request if that may help."""
        reachability, host_port = self.sender.accounts.reachability, self.sender.host_port
        kind = classify(failure)
        # a transcript that is too long is no reason to ask differently, nor is a lost worker
        teaches = not isinstance(kind.next, Finish) and kind.next is not Next.ELSEWHERE
        changed = teaches and self._learn(failure, kind)
        known = reachability.has_worked(host_port)
        if kind is FailureKind.UNREACHABLE:
            reachability.failed(host_port, failure.cause)
        step = retries.next(
            failure,
            self.sender.accounts.clock.monotonic(),
            changed=changed,
            known=known,
            probing=reachability.waiting_reason(host_port) is not None,
        )
        if failure.status == SERVER_ERROR and not changed:
            self._suspect_form()
        return step

    @property
    def _retry_policy(self) -> RetryPolicy:
        policy = self.sender.accounts.retry_policy
        return policy if self.batch is None else policy.in_batches()

    async def _wait_until_reachable(self) -> None:
        """Wait while the host cannot be reached. Raises `ModelError` after too long."""
        accounts, host_port = self.sender.accounts, self.sender.host_port
        longest = accounts.retry_policy.unreachable_s
        async with accounts.stoppable.waiting():
            reached = await accounts.reachability.wait(host_port, longest_s=longest)
        if not reached:
            words = f"{host_port.host} could not be reached for {longest:g} s"
            raise ModelError(f"{self.sender.label}: {words}", retryable=True)

    async def _attempt_in_turn(self, ticket: int) -> CallResult:
        """Make one attempt when its turn has come."""
        limiter = self._model.limiter
        if self.batch is not None:
            # thousands may be out: the provider limits what is queued, and not how many requests
            self._refuse_parked()
            return await self._attempt()
        self.sender.waits.outside += 1
        try:
            async with self.sender.accounts.stoppable.waiting():
                slot = await limiter.enter(ticket)
        finally:
            self.sender.waits.outside -= 1
        signal = Signal.NOTHING
        try:
            # the slot is held meanwhile, as the throttle takes only a few turns of the loop
            await self.sender.accounts.throttle.begin()
            # checked after the wait: the model may have been parked meanwhile
            self._refuse_parked()
            result = await self._attempt()
            failure = result.failure
            signal = Signal.WELL if failure is None else classify(failure).signal
            return result
        finally:
            # also if cancelled or refused: a slot that is not returned is lost for good
            limiter.leave(slot, signal)

    def _refuse_parked(self) -> None:
        reasons = [*self.sender.refusals, self.account.parked_words(self.ask.model)]
        if reasons[0] is not None:
            raise ModelError(f"{self.sender.label}: {reasons[0]}", retryable=False)

    async def _wait_until_sendable(self) -> None:
        """Wait while nothing can be sent from here, which is no call's fault. Raises `ModelError`
        if that cannot change."""
        words = self.account.transport.waits_for()
        while words is not None:
            with self.sender.waits.holding(words):
                await self._wait_a_little()
                words = self.account.transport.waits_for()

    async def _wait_a_little(self) -> None:
        async with self.sender.accounts.stoppable.waiting():
            await self.sender.accounts.clock.sleep(LOOK_AGAIN_S)

    async def _attempt(self) -> CallResult:
        accounts, destination = self.sender.accounts, self.destination
        agents = accounts.agents
        if self.batch is not None:
            return await self._send_with(self._exchange_here)
        if agents is None or destination is None:
            await self._wait_until_sendable()
            return await self._send_with(self._exchange_here)
        try:
            async with AsyncExitStack() as stack:
                async with accounts.stoppable.waiting():
                    slot = await stack.enter_async_context(
                        agents.slot(destination, self.sender.waits.holding)
                    )
                return await self._send_with(partial(self._exchange_by_worker, slot, destination))
        except NoVariableError as error:
            words = f"{error} {PARKED})"
            self._model.parking = Parking(words)
            raise ModelError(f"{self.sender.label}: {words}", retryable=True) from None

    async def _exchange_here(self, result: CallResult) -> None:
        """Send from this process."""
        accounts = self.sender.accounts
        await exchange(
            self.batch or self.account.transport,
            {**self.sender.dialect.headers(self.ask), **self.headers},
            written_body(self.sender.dialect, self.ask),
            result,
            retry_policy=self._retry_policy,
            now=accounts.clock.now,
            accepted=self._model.limiter.accepted,
        )
        if self.sender.host_port.local:
            await self.account.learn_slots(result.server)

    async def _exchange_by_worker(
        self, slot: AgentSlot, destination: RequestDestination, result: CallResult
    ) -> None:
        """Send from a worker."""
        policy = self.sender.accounts.retry_policy
        request = RemoteRequest(destination, self.ask, policy)
        await slot.exchange(request, result, self._model.limiter.accepted)

    async def _send_with(self, send: Callable[[CallResult], Awaitable[None]]) -> CallResult:
        clock, dialect = self.sender.accounts.clock, self.sender.dialect
        # what was learned while this call waited: a thousand waiting calls must not each be refused
        # for the same reason
        self.ask = self._as_learned(self.ask)
        reply = ReplyBuffer(self.on_text, clock.monotonic)
        result = CallResult(dialect.parser(), reply, meant=self.ask.means)
        began = clock.monotonic()
        # replaced by an answer, a failure or a cancellation
        outcome = "bug"
        try:
            await send(result)
            outcome = self._evaluate(result)
            return result
        except asyncio.CancelledError:
            outcome = "cancelled"
            raise
        finally:
            self._report(outcome, result, began)

    def _evaluate(self, result: CallResult) -> str:
        """Evaluate a reply beyond its text, and return the outcome's name."""
        reach, host_port = self.sender.accounts.reachability, self.sender.host_port
        # any status, even a refusal: the host was reached
        if result.status is not None:
            reach.mark_reached(host_port)
        if result.failure is None and self._is_cut(result):
            result.failure = Failure(Cause.UNFINISHED, "no reason for its end, as others had")
        if result.failure is None and result.finish is Finish.STOP and not result.text.strip():
            result.failure = Failure(Cause.EMPTY, _why_empty(result))
        if result.failure is None and self._ignored_schema(result):
            result.failure = Failure(Cause.NO_JSON)
        if result.failure is None:
            return "answer"
        # a server says both in the same words ("maximum context length"): a shorter reply helps
        # against one, and nothing against the other
        if self._limit_is_to_blame(result.failure):
            result.failure = replace(result.failure, cause=Cause.LIMIT)
        # watchers must not keep showing text that no message will contain
        result.reply.discard()
        return classify(result.failure).outcome

    def _is_cut(self, result: CallResult) -> bool:
        """Whether a reply without a reason for its end is most likely cut, as the model gives
        reasons otherwise. Doubted once in each call."""
        if not result.parser.unexplained:
            self._model.explains = True
            return False
        doubted, self._doubted = self._doubted, True
        return not doubted and self._model.explains

    def _note_answer(self, result: CallResult) -> None:
        """Learn what an answer shows of the model."""
        self._model.history.note_answer()
        if self.batch is not None:
            result.parser.oddity = None  # that an answer is one document is no oddity there
        self._count_filtered(result.finish)
        self._confirm_guess(result)
        noted, oddity = self._model.noted, result.parser.oddity
        if oddity is not None and oddity not in noted and len(noted) < MOST_NOTES:
            noted.add(oddity)
            self.sender.on_note(f"{self.sender.label} {self.redact(oddity)}")

    def _count_filtered(self, finish: Finish) -> None:
        """Count replies that the provider's filter withholds, and park the model if it withholds
        all of them."""
        known = self._model.filtered
        if finish is not Finish.CONTENT_FILTER:
            known.clear()
            return
        known.add(self.ask.session or self.ask.messages)
        if len(known) >= FILTERED_IN_A_ROW and not self._model.filter_expected:
            words = (
                f"the provider's filter withheld the replies in {len(known)} "
                f"conversations in a row, so the account may be blocked {PARKED}; ask the "
                "provider, or call it again if it does that with such scenarios)"
            )
            self._model.parking = Parking(words, by_filter=True)
            known.clear()

    def _report(self, outcome: str, result: CallResult, began: float) -> None:
        failure, first = result.failure, result.reply.first_token_at
        if self.on_attempt is None or (failure and failure.cause in _NOT_SENT):
            return
        if self.batch is not None and result.status is None:
            return  # it is still out, and may be answered to a later run
        self.on_attempt(
            Attempt(
                outcome,
                result.status if failure is None else failure.status or result.status,
                round((self.sender.accounts.clock.monotonic() - began) * 1000),
                None if first is None else round((first - began) * 1000),
                self._usage(result),
                None
                if failure is None
                else self.redact(_with_request_id(failure, result.request_id)),
                self._redacted_name(result.served),
                result.other is not None,
                result.route.words(result.parser.provider) if self.batch is None else BATCH_ROUTE,
                self._reported(result) is not None,
                left_out(self.ask),
                None if self.batch is None else result.request_id,
            )
        )

    def _redacted_name(self, served: str | None) -> str | None:
        """Redact a name from a server, which may be anything but the one that was asked."""
        if served is None or served == self.ask.model:
            return served and self.redact.hidden(served)
        return self.redact(served)

    def _usage(self, result: CallResult) -> Usage:
        if self._priced is None or self._priced[0] is not result:
            self._priced = (result, self._usage_of(result))
        return self._priced[1]

    def _usage_of(self, result: CallResult) -> Usage:
        tokens, cost = result.parser.tokens, self._reported(result)
        if cost is None:
            sender = self.sender
            prices = sender.accounts.prices
            asked = self.ask.extra_body.get(SERVICE_TIER)
            # what the server says comes first: it may serve another tier than it was asked for
            if tokens.tier is None and isinstance(asked, str):
                tokens = replace(tokens, tier=asked)
            cost = prices.cost_usd(sender.price, self.ask.model, sender.base_url, tokens)
            if cost is not None and self.batch is not None:
                cost *= SHARE
        return Usage(1, tokens.input, tokens.cached, tokens.output, cost)

    def _reported(self, result: CallResult) -> float | None:
        """Return the cost that the provider reports. A gateway that knows no price reports 0, so 0
        is only believed of one that has free models."""
        cost_usd = result.parser.tokens.cost_usd
        if cost_usd is None:
            cost_usd = result.route.cost_usd
        return cost_usd if cost_usd or (cost_usd is not None and self.sender.gives_away) else None

    def _reply(self, result: CallResult, finish: Finish | None = None) -> Reply:
        usage = self._usage(result)
        other = None if result.other is None else self.redact(result.other)
        how = finish or result.finish
        limit = self._limit_in_words(usage) if how is Finish.LENGTH else None
        return Reply(result.text, how, usage, result.reasoning, other, result.session, limit)

    def _limit_in_words(self, usage: Usage) -> str:
        """Say which limit has cut a reply."""
        body = self.sender.dialect.body(self.ask)
        names = ("max_tokens", "max_completion_tokens", "max_output_tokens")
        sent = next((body[name] for name in names if name in body), None)
        wrote = "" if usage.output_tokens is None else f", after {usage.output_tokens:,} tokens"
        if not isinstance(sent, int):
            return f"a limit of the server{wrote}, as no `max_tokens` is configured"
        # a server that stops before has no more room, which request and reply share
        if usage.output_tokens is not None and usage.output_tokens < sent:
            return f"the model's context{wrote} of {sent:,}"
        if self.ask.params.max_tokens is None:
            return f"{sent:,} tokens, asked for as no `max_tokens` is configured"
        return f"{sent:,} tokens, its `max_tokens` in config.yaml"

    def _as_learned(self, ask: ChatRequest) -> ChatRequest:
        """Return the request with what this call and others have learned by now."""
        learned = ask.learned | self._remembered_capabilities()
        if self.guess is not None:
            learned = learned | self.guess.learned
        return ask if learned == ask.learned else replace(ask, learned=learned)

    def _remembered_capabilities(self) -> ModelCapabilities:
        accounts = self.sender.accounts
        return accounts.memory.recall(self.sender.memory_key(self.ask.model))

    def _limit_is_to_blame(self, failure: Failure) -> bool:
        """Whether the limit of the reply is to blame, and not the length of the conversation."""
        limit = self.ask.params.max_tokens
        room = room_in(failure.message) if failure.status in _OF_A_LIMIT else None
        if room is None or failure.cause is not Cause.STATUS:
            return False
        if limit is None:
            return self._fewer_tokens(room) is not None
        return limit >= (room.now + 1 if room.context is None else room.context)

    def _fewer_tokens(self, room: TokenLimits) -> int | None:
        """Return how many tokens to ask for if nobody configured a limit; None if the request
        itself leaves no room."""
        # from the body: without a configured limit, a protocol that needs one has set its own
        asked = self.sender.dialect.body(self.ask).get("max_tokens")
        if not isinstance(asked, int):
            return None
        fewer = min(room.now, room.always)
        if fewer >= asked:
            # the server counts with another tokenizer
            fewer = asked // 2
        return fewer if fewer >= FEWEST else None

    def _shorten(self, failure: Failure) -> bool:
        """Whether a shorter reply can be asked for: by this call at once, by others from now on
        with as many tokens as fit beside most requests."""
        room = room_in(failure.message)
        fewer = None if room is None or self.ask.params.max_tokens else self._fewer_tokens(room)
        if room is None or fewer is None:
            return False
        asked = self.sender.dialect.body(self.ask)["max_tokens"]
        # this call uses the room beside its own transcript, others the room that there always is
        self.ask = replace(self.ask, learned=replace(self.ask.learned, room=fewer))
        known = self._remembered_capabilities()
        if room.always < asked:
            note = f"has room for {room.always} tokens of a reply: asked for no more than that"
            self._remember(Adaptation(replace(known, room=room.always), note, certain=True))
        return True

    def _learn(self, failure: Failure, kind: FailureKind) -> bool:
        """Whether the request can be changed and sent again."""
        if self._without_form:
            return False  # what is remembered is learned for requests with their form
        if failure.cause is Cause.LIMIT:
            return self._shorten(failure)
        if not self.sender.adapts or (self.batch is not None and self.batch.is_whole_refused):
            return False
        dialect, ask = self.sender.dialect, self.ask
        learned = adaptation_from(
            failure,
            ask.learned,
            sent=dialect.sent(dialect.body(ask)),
            steps=dialect.steps,
            shaped=ask.schema is not None,
        )
        if learned is None:
            return False
        self.guess = learned
        self._guessed_from_prose = self._guessed_from_prose or kind is FailureKind.NO_JSON
        if learned.certain:
            self._keep_guess()
        return True

    def _confirm_guess(self, result: CallResult) -> None:
        """Evaluate a guess by the reply that it led to."""
        # a guess after a refusal is confirmed by any success; one after prose only by JSON
        if self.guess is None or not self._guessed_from_prose:
            self._keep_guess()
            return
        model = self._model
        if _is_json(result.text):
            model.helped += 1
        else:
            model.not_helped += 1
        if model.helped >= GUESSES_TO_KEEP and model.helped > model.not_helped:
            self._remember(self.guess)
        self.guess = None

    def _ignored_schema(self, result: CallResult) -> bool:
        """Whether the server was asked to enforce a schema, and did not. False once asking in the
        prompt has failed to help twice."""
        model = self._model
        hopeless = model.not_helped >= max(GUESSES_TO_KEEP, model.helped)
        prose_came = result.finish is Finish.STOP and not _is_json(result.text)
        return self._asks_for_form and prose_came and not hopeless

    def _keep_guess(self) -> None:
        """Remember what was learned: at once if the server named the reason; otherwise when the
        same guess has helped two calls in a row, as one refusal may have another reason."""
        if self.guess is None:
            if self.ask.schema is not None:
                self._model.doubts = 0
            return
        guess, self.guess = self.guess, None
        self.ask = replace(self.ask, learned=self.ask.learned | guess.learned)
        if not guess.certain:
            self._model.doubts += 1
            if self._model.doubts < GUESSES_TO_KEEP:
                return
        self._remember(guess)

    @property
    def _asks_for_form(self) -> bool:
        """Whether the server, and not only the prompt, is asked for a form of answer."""
        ask = self.ask
        return ask.schema is not None and ask.learned.step is not Step.PROMPT

    def _suspect_form(self) -> None:
        """Go on without a form, after some failures of the server: llama-server answers 500 where a
        model breaks the form that its own grammar should hold it to. An outage looks the same, so
        nothing is remembered."""
        self._server_errors += 1
        if self._server_errors == FAILURES_UNDER_FORM and self._asks_for_form:
            self._without_form = self.sender.adapts
            if self._without_form:
                self.ask = replace(self.ask, learned=replace(self.ask.learned, step=Step.PROMPT))

    def _remember(self, guess: Adaptation) -> None:
        known = self._remembered_capabilities()
        if known | guess.learned != known:
            key = self.sender.memory_key(self.ask.model)
            self.sender.accounts.memory.learn(key, known | guess.learned)
            self.sender.on_note(f"{self.sender.label} {guess.note}")

    def _given_up(self, step: GiveUp, failure: Failure) -> str:
        """Return why the call has failed, and park what cannot succeed."""
        words = f"{self.redact(step.message)}{step.why}"
        refused = self._refused_setting(failure)
        if refused is not None:
            # it is in every request of this configuration, and in none of another
            words += f" {PARKED}; remove or change {refused} of {self.sender.label} in config.yaml)"
            self.sender.refusals[:] = [words]
        elif step.parks:
            clock, until = self.sender.accounts.clock, math.inf
            advice = f"; check {self.sender.look_at or step.look_at} of {self.sender.label}"
            if not step.look_at:
                advice = "; call it again when the quota has begun anew"
            if step.for_s is not None:
                until = clock.monotonic() + step.for_s
                moment = clock.now() + timedelta(seconds=step.for_s)
                advice = f" until {moment:%Y-%m-%d %H:%M} UTC"
            words += f" {PARKED}{advice})"
            self._model.parking = Parking(words, until)
        return f"{self.sender.label}: {words}"

    def _refused_setting(self, failure: Failure) -> str | None:
        """Name the key of the configuration that the server refuses; None if it refuses none."""
        ask = self.ask
        chosen = [name for name in _CHOSEN if getattr(ask.params, name) is not None]
        name = refused_setting(failure, [*ask.extra_body, *filter(ask.takes, chosen)])
        if name is None or self.sender.dialect.fills_template:
            return None
        return f"`{name}` in `{'extra_body' if name in ask.extra_body else 'params'}`"

    def _close(self, step: Retry, failure: Failure) -> None:
        """Hold back the calls that the server asks to wait."""
        if step.all_wait_s:
            # some limits are of the key, and apply to all of its models; others are of one model
            gate = self.account.cooldown if concerns_account(failure) else self._model.limiter
            gate.close_for(step.all_wait_s)

    async def _pause(self, step: Retry) -> None:
        # a wait of 0 s need not be shown
        if not step.after_s:
            return
        clock, waits = self.sender.accounts.clock, self.sender.waits
        number = waits.begin(clock.monotonic() + step.after_s, self.redact(step.words))
        try:
            async with self.sender.accounts.stoppable.waiting():
                await clock.sleep(step.after_s)
        finally:
            waits.end(number)


MOST_NOTES: Final = 5
"""Oddities of one model that are noted."""
PARKED: Final = "(parked"
"""In the reason of every call that is not made, or not made again, as its model is parked."""
_CHOSEN: Final = ("temperature", "top_p", "reasoning_effort", "seed")
"""Parameters that are sent if somebody configures them."""
_NOT_SENT: Final = frozenset({Cause.NO_FILES, Cause.AGENT_UNFIT})
# 422: FastAPI, and so most servers in Python, answers it for an unacceptable value
_OF_A_LIMIT: Final = frozenset({400, 422})


def _with_request_id(failure: Failure, request_id: str | None) -> str:
    """Describe a failure, with the id by which the server's owners can find it."""
    return describe(failure) + (f"; request {request_id}" if request_id else "")


def _is_json(text: str) -> bool:
    """Whether the text begins like JSON, or like a code fence with it: with an enforced schema it
    cannot begin otherwise."""
    return text.lstrip().startswith(("{", "```"))


def _why_empty(result: CallResult) -> str:
    oddity = result.parser.oddity or ""
    if oddity.startswith(CALLS_A_TOOL):
        return oddity
    return "it only thought" if result.reasoning else ""
