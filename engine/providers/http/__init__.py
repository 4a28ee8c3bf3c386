"""Requests and responses over HTTP/1.1. Knows nothing of models.

`pool` keeps connections, `connector` opens them (names, sockets, `proxies`, TLS), `connection`
sends a request and passes each piece of its response, decompressed, to a handler as soon as it
arrives; `transport` has the types that they share with their callers. Applications are reached by
httpx2, in `application`.

Why it is our own for the streams of the chat protocols: behind the same protocol
(`transport.Transport`) and over loopback it is compared with aiohttp and httpx2. `python -m
tests.benchmarks transports` prints, for 111 answers of which 19 are bad, each in 5 segmentations,
and for 150 unsolicited answers each on a connection that is idle and on one that is reused at once:

    client           good    bad       wrong  hangs  stale,  stale,    CPU of a
                     refused accepted  body          idle    at once   streamed call
    this one         0       0         0      0      0       0         1
    aiohttp 3.14.5   2       2         0      2      150     0         1.2 to 1.5
    httpx2 2.16.2    2       1         3      0      0       150       2.7 to 5.2

An unsolicited answer that is taken for that to the next request puts one conversation's words into
another, which no later check finds; and the cost of a call decides how many conversations a process
can hold. A better client takes one line: `Accounts(open_transport=...)`.
"""
