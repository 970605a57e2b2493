"""Who may talk to the page, and what nobody can make it do."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from serving import TOKEN, Served, page_sweep_of
from starlette.routing import Mount, Route

from edgebench.serve.app import STATIC, knows_host, make_app

FILES = [
    path
    for path in sorted(STATIC.rglob("*"))
    if path.suffix in (".js", ".html") and path.parent.name != "vendor"
]
_ALL = make_app(page_sweep_of(Path("nowhere")), TOKEN).routes
#: Every address, as the application itself knows them: a new one is tried of itself.
ROUTES = [
    (method, route.path)
    for route in _ALL
    if isinstance(route, Route)
    for method in sorted(route.methods or ())
    if method != "HEAD"
]
#: What shows no token, or a wrong one.
SHUT_OUT = [
    {},
    {"Cookie": f"edgebench_token={TOKEN}"},
    {"Authorization": f"Bearer {TOKEN}x"},
    {"Authorization": f"Bearer {TOKEN[:-1]}"},
    {"Authorization": f"Bearer {TOKEN[:-1]}X"},
    {"Authorization": "Bearer"},
    {"Authorization": TOKEN},
    {"Authorization": f"Basic {TOKEN}"},
    {"Authorization": "Bearer \xff\xfe"},
]


def ask(served: Served, method: str, path: str, **headers: str) -> Any:
    own = {"Authorization": "", **headers}
    return served.get(path, **own) if method == "GET" else served.post(path, **own)


@pytest.mark.process
@pytest.mark.promise(
    "Another site can't use the page, and requests under another host name are refused."
)
@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", ""])
def test_another_name_is_refused(served: Served, host: str):
    """A name of somebody else's that resolves to this machine (DNS rebinding) opens nothing."""
    assert served.get("/", Host=host).status == 403
    assert served.get("/api/sweeps", Host=host).status == 403


@pytest.mark.parametrize(
    ("served_on", "header", "known"),
    [
        *(("127.0.0.1", name, True) for name in ("localhost:1", "127.0.0.1:1", "[::1]:1")),
        ("127.0.0.1", "192.168.1.7:8642", False),
        # Served to the network, a name of somebody else's still opens nothing.
        ("0.0.0.0", "192.168.1.7:8642", True),
        ("0.0.0.0", "[fe80::1]:8642", True),
        ("0.0.0.0", "evil.example:8642", False),
    ],
)
def test_own_names_are_known(served_on: str, header: str, known: bool):
    assert knows_host(served_on, header) is known


@pytest.mark.process
@pytest.mark.promise("Another user's server on another port of this machine gets no token.")
def test_every_answer_has_the_headers(served: Served):
    for path in ("/", "/js/main.js", "/api/sweeps", "/nowhere"):
        answer = served.get(path, Origin="http://127.0.0.1:1")
        # A browser sends cookies to each port, and lets another origin read what permits it.
        assert not any(n.startswith(("set-cookie", "access-control")) for n in answer.headers)
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self';" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cache-control"] == "no-store"


@pytest.mark.promise(
    "Every address but the page's own files needs the token, for other users of the machine too."
)
def test_all_but_the_pages_own_files_is_tried():
    (files,) = [route for route in _ALL if not isinstance(route, Route)]
    assert isinstance(files, Mount)
    assert Path(files.app.directory) == STATIC  # type: ignore[attr-defined]
    assert {"/api/live", "/api/start", "/api/trials.csv"} <= {path for _, path in ROUTES}


@pytest.mark.process
@pytest.mark.promise(
    "Every address but the page's own files needs the token, for other users of the machine too."
)
@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_no_route_opens_without_the_token(with_sweep: Served, method: str, path: str):
    for headers in SHUT_OUT:
        answer = ask(with_sweep, method, path, **headers)
        assert answer.status == 401, headers
        assert answer.headers["www-authenticate"] == "Bearer"
        assert b"#token=" in answer.body
        assert len(answer.body) < 500
    for other in (f"{path}?token={TOKEN}", f"/%61{path[2:]}", f"/x/..{path}"):
        assert ask(with_sweep, method, other).status in (401, 404, 405)
    if path == "/api/live":
        with with_sweep.stream() as events:
            assert next(events)[0] == "state"
        return
    for word in ("Bearer", "token"):
        answer = ask(with_sweep, method, path, Authorization=f"{word} {TOKEN}")
        assert answer.status in (200, 422)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_the_page_makes_no_markup_from_data(path: Path):
    text = path.read_text()
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(", text)
    assert not re.search(r"https?://(?!www\.w3\.org)", text)
    assert not re.search(r"\bon[a-z]+=|javascript:|<style|style=", text) or path.suffix == ".js"


@pytest.mark.process
def test_no_path_leads_out_of_the_page(served: Served):
    for path in ("/../app.py", "/js/../../app.py", "/%2e%2e/app.py", "/vendor/", "/.serve/x.json"):
        assert served.get(path).status == 404
