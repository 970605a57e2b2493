"""Which requests are let in: those to the server's own name, and with the token.

Every user of a machine reaches its loopback address, and the server acts with the rights of the
user who started it. So every address but the page's own files needs the token, in a header that no
page of another site can make a browser send. A browser sends cookies to all ports of a host, also
to those of other users: there are none.
"""

from __future__ import annotations

import contextlib
import fcntl
import hmac
import ipaddress
import os
import secrets
import socket
from collections.abc import Iterator
from pathlib import Path

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from edgebench.cgroups.leftovers import clear_token_files, state_folder
from edgebench.errors import MachineError
from edgebench.safe_files import remove_empty_folder, remove_file, write_whole

#: Authorization schemes for the token in a script's header.
_SCHEMES = ("bearer", "token")
_TEXT = """\
The token is missing or wrong. It keeps other users of this machine from starting sweeps.
In a browser: open the address that 'edgebench serve' printed; it ends in #token=…
In a script: send the header 'Authorization: Bearer …'; 'edgebench serve' printed the token's file.
"""
#: Of every answer.
HEADERS = {
    "Cache-Control": "no-store",
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


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches that address."""
    address = _address(host)
    return host == "localhost" if address is None else address.is_loopback


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return None


def knows_host(served: str, header: str) -> bool:
    """Whether a Host header names the server on an address by a name that is its own.

    Another name can be made to resolve to this machine (DNS rebinding).
    """
    name, _, port = header.rpartition(":")
    name = (name if name and port.isdigit() else header).lower()
    if is_loopback(served):
        return is_loopback(name)
    own = socket.gethostname().lower()
    # A numeric address can't be made to resolve elsewhere.
    return name in {served.lower(), own, f"{own}.local"} or _address(name) is not None


class AccessMiddleware:
    """ASGI middleware: refuses what has another host name or no token; adds headers to answers.

    Args:
        app: what is asked if a request is let in.
        host: the address served on.
        token: what a request to any address below ``/api/`` has to show.
    """

    def __init__(self, app: ASGIApp, host: str, token: str) -> None:
        self._app, self._host, self._token = app, host, token

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

        refusal = self._refusal(Headers(scope=scope), scope["path"])
        await (refusal or self._app)(scope, receive, with_headers)

    def _refusal(self, headers: Headers, path: str) -> Response | None:
        if not knows_host(self._host, headers.get("host", "")):
            words = "not this server's name; open the address that edgebench serve printed\n"
            return PlainTextResponse(words, 403)
        if not path.startswith("/api/"):
            # The page's own files, which a browser asks for without the token.
            return None
        scheme, _, shown = headers.get("authorization", "").partition(" ")
        # The time taken doesn't depend on how much of it is right.
        same = hmac.compare_digest(shown.strip().encode(), self._token.encode())
        if same and scheme.lower() in _SCHEMES:
            return None
        return PlainTextResponse(_TEXT, 401, {"WWW-Authenticate": "Bearer"})


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
    path, text = state_folder() / f"serve-{port}.token", f"{token}\n"
    with contextlib.ExitStack() as kept:
        kept.callback(_remove_own, path, text)
        try:
            clear_token_files(path.parent)
            _write_locked(path, text, kept)
        except OSError as error:
            raise MachineError(
                f"the token's file can't be written: {error.strerror}",
                where=str(path.parent),
                remedy="set XDG_RUNTIME_DIR to a folder of your own",
            ) from error
        yield path


def _remove_own(path: Path, text: str) -> None:
    """Remove it; a server on the same port of another address may have written its own."""
    with contextlib.suppress(OSError):
        if path.read_text() == text:
            remove_file(path)
    with contextlib.suppress(OSError):
        remove_empty_folder(path.parent)


def _write_locked(path: Path, text: str, kept: contextlib.ExitStack) -> None:
    while True:
        # A sweep that ends may remove the empty folder at any moment, and a server that starts the
        # file until it is locked.
        state_folder()
        with contextlib.suppress(FileNotFoundError):
            remove_file(path)
            file = kept.enter_context(write_whole(path, text.encode(), 0o600).open())
            fcntl.flock(file, fcntl.LOCK_EX)
            if os.fstat(file.fileno()).st_nlink:
                return
