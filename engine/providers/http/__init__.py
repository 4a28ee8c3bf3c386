"""Requests and responses over HTTP/1.1. Knows nothing of models.

`pool` keeps connections, `connector` opens them (names, sockets, `proxies`, TLS), `connection`
sends a request and hands each piece of its response, decoded by `decoding`, to a handler at the
moment in which it comes in; `transport` has the words that they and their callers share.

Why it is our own. Behind the same protocol (`transport.Transport`) and over the same loopback stand
aiohttp and httpx2; `python -m tests.benchmarks transports` prints, for 111 answers of which 18 are
bad, each in 5 segmentations, and 150 answers to nothing on a connection that is idle and 150 on one
that is used again at once:

    client           good    bad       wrong  hangs  stale,  stale,    CPU of a
                     refused accepted  body          idle    at once   streamed call
    this one         0       0         0      0      0       0         1
    aiohttp 3.14.5   2       1         0      2      150     0         1.3 to 1.5
    httpx2 2.16.2    2       1         3      0      0       150       2.7 to 4.1

An answer to nothing that is taken for that to the next request puts one conversation's words into
another, which no later check finds; and what a call costs decides how many conversations one
process can hold. Another client that does better takes one line: `Accounts(open_transport=...)`.
"""
