"""Who may talk to the server: the right Host, no other site's posts, a token off loopback.

A page of another site can make a browser send requests here, and a name of its own can be made to
resolve to this machine (DNS rebinding). So the Host header must name us, a post must come from our
own page, and it must be JSON, which no form of another site can send without being asked.
"""

from __future__ import annotations

import hmac
import ipaddress
import secrets
import socket
from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE = "edgebench_token"
#: A scenario's form is far below it.
MOST_BODY_BYTES = 64 * 1024
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


@dataclass(frozen=True)
class Guard:
    """What is asked of a request.

    Args:
        host: the address served on.
        token: what a browser must show; None asks for none.
    """

    host: str
    token: str | None = None

    def knows_host(self, header: str) -> bool:
        """Whether a Host header names this server: never a stranger's name."""
        name = _name_of(header)
        if is_loopback(self.host):
            return name == "localhost" or is_loopback(name)
        own = socket.gethostname().lower()
        return name in {self.host.lower(), own, f"{own}.local"} or _is_address(name)

    def knows_token(self, shown: str) -> bool:
        """Whether that is the token, in a time that doesn't tell how much of it is right."""
        return self.token is None or hmac.compare_digest(shown.encode(), self.token.encode())


def new_token() -> str:
    """A token nobody guesses: 256 random bits."""
    return secrets.token_urlsafe(32)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches that address."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def _is_address(name: str) -> bool:
    # A number can't be made to resolve elsewhere.
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


def _name_of(header: str) -> str:
    """The Host header without its port."""
    name, _, port = header.rpartition(":")
    return (name if name and port.isdigit() else header).lower()


class Guarded:
    """ASGI middleware: refuses what the guard does not know, and puts headers on all answers."""

    def __init__(self, app: ASGIApp, guard: Guard) -> None:
        self._app = app
        self._guard = guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or pass it on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                extra = [(k.lower().encode(), v.encode()) for k, v in HEADERS.items()]
                message["headers"] = [*message.get("headers", []), *extra]
            await send(message)

        answer = self._refusal(Request(scope))
        await (answer or self._app)(scope, receive, with_headers)

    def _refusal(self, request: Request) -> Response | None:
        headers = request.headers
        if not self._guard.knows_host(headers.get("host", "")):
            return _refused("this server is not known by that name; use the address it printed")
        if headers.get("sec-fetch-site") == "cross-site" and request.url.path != "/":
            return _refused("another site's page may lead here, and ask for nothing")
        if request.method not in ("GET", "HEAD") and (why := _stranger(headers)):
            return _refused(why)
        return self._token_asked(request)

    def _token_asked(self, request: Request) -> Response | None:
        if self._guard.token is None:
            return None
        shown = request.query_params.get("token")
        if shown is not None and request.method == "GET" and self._guard.knows_token(shown):
            # Into a cookie, and out of the address, which is seen and remembered.
            answer = RedirectResponse("/", status_code=303)
            answer.set_cookie(COOKIE, shown, httponly=True, samesite="strict")
            return answer
        if self._guard.knows_token(request.cookies.get(COOKIE, "")):
            return None
        return _refused("open the address with ?token=… that 'edgebench serve' printed", 401)


def _stranger(headers: Headers) -> str | None:
    """Why a post is not from our own page; None if it is."""
    origin = headers.get("origin", "")
    if origin.partition("://")[2] != headers.get("host"):
        return "only this server's own page may do that"
    if headers.get("sec-fetch-site", "same-origin") != "same-origin":
        return "only this server's own page may do that"
    if headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        return "what is sent must be JSON"
    length = headers.get("content-length", "")
    if not length.isdigit() or int(length) > MOST_BODY_BYTES:
        return f"more than {MOST_BODY_BYTES} bytes, or of unknown length"
    return None


def _refused(why: str, status: int = 403) -> Response:
    return PlainTextResponse(f"{why}\n", status_code=status)
