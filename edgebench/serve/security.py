"""Which requests are let in: those with the token, to the server's own name.

A page of another site can make a browser send requests here, and a name of its own can be made to
resolve to this machine (DNS rebinding). So the Host header must name us, and a post must be JSON,
which no form of another site can send; without a token, it must come from our own page.

Every user of a machine reaches its loopback address, and the server acts with the rights of the
user who started it. So every address but the page's own files needs the token, in a header. A
browser sends cookies to all ports of a host, also to those of other users: there are none.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hmac
import ipaddress
import logging
import os
import secrets
import socket
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from edgebench.cgroups.leftovers import clear_token_files, state_folder
from edgebench.errors import MachineError
from edgebench.safe_files import remove_empty_folder, remove_file, write_whole

#: A filled-in form is far smaller.
MOST_BODY_BYTES = 64 * 1024
_NO_STORE = {"Cache-Control": "no-store"}
#: Authorization schemes for the token in a script's header.
_SCHEMES = ("bearer", "token")
_TEXT = """\
The token is missing or wrong. It keeps other users of this machine from starting sweeps.
In a browser: open the address that 'edgebench serve' printed; it ends in #token=…
In a script: send the header 'Authorization: Bearer …'; 'edgebench serve' printed the token's file.
"""
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


#: So many may wait for their first request: far fewer than a process may have open files.
MOST_WAITING = 64
#: How long a connection may take until its first request is complete.
REQUEST_TIMEOUT_S = 10.0
#: The same message is logged again after this time at the earliest.
_LOG_AGAIN_S = 600.0


@dataclass(frozen=True)
class AccessRules:
    """What a request needs.

    Args:
        host: the address served on.
        token: the token that a request needs; None if it needs none.
    """

    host: str
    token: str | None = None

    def knows_host(self, header: str) -> bool:
        """Whether a Host header names this server, by a name that is its own."""
        name = _name_of(header)
        if is_loopback(self.host):
            return name == "localhost" or is_loopback(name)
        own = socket.gethostname().lower()
        # A numeric address can't be made to resolve elsewhere.
        return name in {self.host.lower(), own, f"{own}.local"} or _address(name) is not None

    def lets_in(self, headers: Headers) -> bool:
        """Whether the token, if one is needed, is in the header that no browser sends by itself."""
        scheme, _, shown = headers.get("authorization", "").partition(" ")
        if self.token is None:
            return True
        # The time taken doesn't depend on how much of it is right.
        same = hmac.compare_digest(shown.strip().encode(), self.token.encode())
        return same and scheme.lower() in _SCHEMES


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches that address."""
    address = _address(host)
    return host == "localhost" if address is None else address.is_loopback


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return None


def _name_of(header: str) -> str:
    """Return the Host header without its port."""
    name, _, port = header.rpartition(":")
    return (name if name and port.isdigit() else header).lower()


class AccessMiddleware:
    """ASGI middleware: refuses what the rules don't allow, and puts headers on all answers.

    Args:
        public: the page's own files, which a browser asks for without the token.
    """

    def __init__(self, app: ASGIApp, rules: AccessRules, public: Collection[str]) -> None:
        self._app = app
        self._rules = rules
        self._public = public

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or pass it on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        # Nobody keeps a connection without the token.
        request = Request(scope)
        let_in = self._rules.lets_in(request.headers)
        added = HEADERS if let_in else {**HEADERS, "Connection": "close"}

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                extra = [(k.lower().encode(), v.encode()) for k, v in added.items()]
                message["headers"] = [*message.get("headers", []), *extra]
            await send(message)

        await (self._refusal(request, let_in) or self._app)(scope, receive, with_headers)

    def _refusal(self, request: Request, let_in: bool) -> Response | None:
        headers = request.headers
        if not self._rules.knows_host(headers.get("host", "")):
            return _refused("not this server's name; open the address that edgebench serve printed")
        if headers.get("sec-fetch-site") == "cross-site" and request.url.path != "/":
            return _refused("another site's page may link here, but not send requests")
        reads = request.method in ("GET", "HEAD")
        if not let_in and not (reads and request.url.path in self._public):
            return PlainTextResponse(_TEXT, 401, {**_NO_STORE, "WWW-Authenticate": "Bearer"})
        if not reads:
            # No page of another site can send the token.
            if self._rules.token is None and not _is_own_page(headers):
                return _refused("only this server's own page may send this")
            if why := _why_not_read(headers):
                return _refused(why)
        return None


def _is_own_page(headers: Headers) -> bool:
    """Whether a request comes from our own page."""
    own = headers.get("origin", "").partition("://")[2] == headers.get("host")
    return own and headers.get("sec-fetch-site", "same-origin") == "same-origin"


def _why_not_read(headers: Headers) -> str | None:
    """Why a request's body is not read; None if it is."""
    if headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        return "the body must be JSON"
    length = headers.get("content-length", "")
    if not length.isdigit() or int(length) > MOST_BODY_BYTES:
        return f"the body is longer than {MOST_BODY_BYTES} bytes, or has no length"
    return None


def _refused(why: str) -> Response:
    return PlainTextResponse(f"{why}\n", status_code=403)


def new_token() -> str:
    """Return a token of 256 random bits."""
    return secrets.token_urlsafe(32)


@contextlib.contextmanager
def token_file(port: int, token: str) -> Iterator[Path]:
    """Yield the file with the token of the server on a port, which exists while the block runs.

    Only its owner can read it. Files that killed servers left are removed.

    Raises:
        MachineError: it can't be written.
    """
    text = f"{token}\n"
    with contextlib.ExitStack() as kept:
        kept.callback(_remove_own, port, text)
        try:
            clear_token_files(state_folder())
            path = _written_and_locked(port, text, kept)
        except OSError as error:
            raise MachineError(
                f"the token's file can't be written: {error.strerror}",
                where=str(state_folder()),
                remedy="set XDG_RUNTIME_DIR to a folder of your own",
            ) from error
        yield path


def _path(port: int) -> Path:
    return state_folder() / f"serve-{port}.token"


def _remove_own(port: int, text: str) -> None:
    """Remove it; a server on the same port of another address may have written its own."""
    path = _path(port)
    with contextlib.suppress(OSError):
        if path.read_text() == text:
            remove_file(path)
    with contextlib.suppress(OSError):
        remove_empty_folder(path.parent)


def _written_and_locked(port: int, text: str, kept: contextlib.ExitStack) -> Path:
    while True:
        path = _path(port)
        # A sweep that ends may remove the empty folder at any moment, and a server that starts the
        # file until it is locked.
        with contextlib.suppress(FileNotFoundError):
            remove_file(path)
            file = kept.enter_context(write_whole(path, text.encode(), 0o600).open())
            fcntl.flock(file, fcntl.LOCK_EX)
            if os.fstat(file.fileno()).st_nlink:
                return path


class LimitedConnection(H11Protocol):
    """A connection that is closed if its first request takes too long or too many others wait."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start its time; of those that wait, close the ones that waited longest."""
        super().connection_made(transport)
        self._made_s = self.loop.time()
        self.loop.call_later(REQUEST_TIMEOUT_S, self._close_if_waiting)
        others = [one for one in self.connections if isinstance(one, LimitedConnection)]
        waiting = sorted((one for one in others if one.scope is None), key=lambda one: one._made_s)
        for one in waiting[:-MOST_WAITING]:
            one._close_if_waiting()

    def _close_if_waiting(self) -> None:
        if self.scope is None:
            self.transport.abort()


class RepeatedMessages(logging.Filter):
    """Drops a message that was logged a short time before: anybody can cause very many."""

    def __init__(self) -> None:
        super().__init__()
        self._logged_s: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to log it. The first line without its values decides, so there are few."""
        message, now = str(record.msg).partition("\n")[0], time.monotonic()
        if now - self._logged_s.get(message, -_LOG_AGAIN_S) < _LOG_AGAIN_S:
            return False
        self._logged_s[message] = now
        return True


#: One for all servers of a process: they share the loggers.
_REPEATED = RepeatedMessages()


def limit_log() -> None:
    """Log what the server and its event loop say of connections once in a while."""
    for name in ("asyncio", "uvicorn.error"):
        logging.getLogger(name).addFilter(_REPEATED)
