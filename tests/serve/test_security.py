"""Who may talk to the dashboard, and what nobody can make it do."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from serving import Served, serving

from edgebench.serve.security import COOKIE, Guard, is_loopback, new_token

STATIC = Path(__file__).parents[2] / "edgebench" / "serve" / "static"
FILES = sorted(path for path in STATIC.rglob("*") if path.suffix in (".js", ".html"))
TOKEN = "a-token-that-nobody-guesses"


@pytest.fixture
def guarded(tmp_path: Path):
    """A server that asks for a token."""
    with serving(tmp_path, Guard("127.0.0.1", TOKEN)) as server:
        yield server


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", ""])
def test_another_name_is_refused(served: Served, host: str):
    """A name of somebody else's that resolves to this machine (DNS rebinding) opens nothing."""
    assert served.get("/", Host=host).status == 403
    assert served.get("/api/sweeps", Host=host).status == 403


def test_own_names_are_known(served: Served):
    """The loopback's names open the page, with the port and without."""
    for host in (f"localhost:{served.port}", f"127.0.0.1:{served.port}", "[::1]:1", "localhost"):
        assert served.get("/", Host=host).status == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": ""},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
        {"Content_Type": "text/plain"},
        {"Content_Type": "application/x-www-form-urlencoded"},
    ],
)
def test_another_sites_post_is_refused(served: Served, headers: dict[str, str]):
    """What a page of another site can make a browser send starts and stops nothing."""
    assert served.post("/api/jobs", {}, **headers).status == 403
    assert not list(served.root.glob(".serve/*"))


@pytest.mark.parametrize(
    "path", ["/api/what-if?sweep=x", "/api/sweeps", "/js/main.js", "/api/live"]
)
def test_another_site_can_ask_for_nothing(served: Served, path: str):
    """Its pictures and scripts can't make the machine work; a link to the page still leads on."""
    assert served.get(path, Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="no-cors").status == 403
    assert served.get("/", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="navigate").status == 200


def test_a_large_body_is_refused(served: Served):
    """Nobody fills the memory with one request."""
    assert served.post("/api/check", {"x": "y" * 100_000}).status == 403


def test_every_answer_has_the_headers(served: Served):
    """No script, style or frame of others, also in refusals and on files."""
    for answer in (served.get("/"), served.get("/js/main.js"), served.get("/", Host="x.example")):
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self';" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"


def test_nothing_opens_without_the_token(guarded: Served):
    """Neither the page nor an answer, nor with a wrong token."""
    for path in ("/", "/js/main.js", "/api/sweeps", "/api/live", "/?token=wrong", "/?token="):
        assert guarded.get(path).status == 401
    assert guarded.get("/", Cookie=f"{COOKIE}=wrong").status == 401
    assert guarded.post("/api/jobs").status == 401


def test_the_token_becomes_a_cookie(guarded: Served):
    """It leaves the address at once, no script reads it, no other site's request carries it."""
    answer = guarded.get(f"/?token={TOKEN}")
    assert answer.status == 303
    assert answer.headers["location"] == "/"
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert guarded.get("/", Cookie=f"{COOKIE}={TOKEN}").status == 200


def test_tokens_are_long_and_differ():
    """Two hundred and fifty-six random bits."""
    tokens = {new_token() for _ in range(100)}
    assert len(tokens) == 100
    assert min(map(len, tokens)) >= 43


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("127.0.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("lan", False)],
)
def test_what_is_loopback(host: str, loopback: bool):
    """Only addresses that no other machine reaches need no token."""
    assert is_loopback(host) is loopback


def test_on_every_address_only_addresses_and_own_names_are_known():
    """Served to the network, a name of somebody else's still opens nothing."""
    guard = Guard("0.0.0.0", "t")
    assert guard.knows_host("192.168.1.7:8265")
    assert guard.knows_host("[fe80::1]:8265")
    assert not guard.knows_host("evil.example:8265")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_the_page_makes_no_markup_from_data(path: Path):
    """No own file writes HTML from text, evaluates code, or loads anything from elsewhere."""
    if path.parent.name == "vendor":
        return
    text = path.read_text()
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(", text)
    assert not re.search(r"https?://(?!www\.w3\.org)", text)
    assert not re.search(r"\bon[a-z]+=|javascript:|<style|style=", text) or path.suffix == ".js"


def test_the_vendored_library_has_its_licence():
    """The chart library is MIT: its notice lies beside it."""
    assert "MIT" in (STATIC / "vendor" / "uPlot.LICENSE.txt").read_text()


def test_no_path_leads_out_of_the_page(served: Served):
    """Only the page's own files are served."""
    for path in ("/../app.py", "/js/../../app.py", "/%2e%2e/app.py", "/vendor/", "/.serve/x.json"):
        assert served.get(path).status == 404
