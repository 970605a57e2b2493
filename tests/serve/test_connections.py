"""Connections of who has no token: they take no place, no time and no log from the owner."""

from __future__ import annotations

import contextlib
import logging
import socket
from pathlib import Path

import pytest
from serving import TOKEN, Served, serving, wait_for

from edgebench.serve import security
from edgebench.serve.security import MOST_WAITING, RepeatedMessages

HALF = b"GET / HTTP/1.1\r\nHost: localhost\r\n"
#: A whole request of the owner's, whose answer has no body.
HEAD = f"HEAD / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode()


def connected(served: Served, stack: contextlib.ExitStack, sent: bytes) -> socket.socket:
    found = stack.enter_context(socket.create_connection(("127.0.0.1", served.port), timeout=120))
    found.sendall(sent)
    return found


def is_closed(connection: socket.socket) -> bool:
    with contextlib.suppress(ConnectionResetError):
        return connection.recv(4096) == b""
    return True


def waiting(served: Served) -> int:
    held = served.server.server_state.connections
    return sum(one.scope is None for one in held)


def test_of_half_open_requests_the_oldest_are_closed(served: Served):
    with contextlib.ExitStack() as stack:
        first = connected(served, stack, HALF)
        others = [connected(served, stack, HALF) for _ in range(MOST_WAITING)]
        assert is_closed(first)
        assert waiting(served) <= MOST_WAITING
        assert served.get("/").status == 200
        # An owner's connection has no need of the strangers' places.
        with served.stream() as events:
            assert next(events)[0] == "state"
            others += [connected(served, stack, HALF) for _ in range(MOST_WAITING)]
            assert is_closed(others[MOST_WAITING - 1])
            assert next(events)
    wait_for(lambda: waiting(served) == 0)


@pytest.mark.parametrize("sent", [b"", HALF])
def test_a_request_that_does_not_come_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sent: bytes
):
    monkeypatch.setattr(security, "REQUEST_TIMEOUT_S", 2.0)
    with serving(tmp_path) as served, contextlib.ExitStack() as stack, served.stream() as events:
        assert next(events)[0] == "state"
        assert is_closed(connected(served, stack, sent))
        assert next(events)


@pytest.mark.parametrize(
    ("method", "status"),
    [("GET /api/sweeps", b"401"), ("POST /api/start", b"401"), ("GET /", b"200")],
)
def test_who_has_no_token_keeps_no_connection(served: Served, method: str, status: bytes):
    head = f"{method} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n".encode()
    with contextlib.ExitStack() as stack:
        stranger = connected(served, stack, head + b"\r\n")
        answer = b""
        while data := stranger.recv(4096):
            answer += data
        assert answer.split()[1] == status
        assert b"connection: close" in answer.lower()
        owner = connected(served, stack, b"")
        for _ in range(2):
            owner.sendall(HEAD)
            assert owner.recv(65536).split()[1] == b"200"


def test_the_same_message_is_logged_once_in_a_while(monkeypatch: pytest.MonkeyPatch):
    logged = RepeatedMessages()
    texts = ["accept failed\nsocket: 7", "accept failed\nsocket: 8", "invalid: %s"]

    def passed() -> list[bool]:
        return [
            logged.filter(logging.makeLogRecord({"msg": text, "args": (number,)}))
            for number, text in enumerate(texts)
        ]

    assert passed() == [True, False, True]
    assert passed() == [False] * 3
    monkeypatch.setattr(security, "_LOG_AGAIN_S", 0.0)
    assert passed() == [True] * 3
