"""Who may talk to the dashboard, and what nobody can make it do."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from serving import TOKEN, Served, page_sweep_of, serving
from starlette.routing import Route

from edgebench.serve.app import make_app
from edgebench.serve.security import AccessRules, is_loopback

STATIC = Path(__file__).parents[2] / "edgebench" / "serve" / "static"
FILES = sorted(path for path in STATIC.rglob("*") if path.suffix in (".js", ".html"))
#: Every address, as the application itself knows them: a new one is tried of itself.
ROUTES = sorted(
    (method, route.path)
    for route in make_app(page_sweep_of(Path("nowhere")), AccessRules("127.0.0.1")).routes
    if isinstance(route, Route)
    for method in route.methods or ()
    if method != "HEAD"
)
#: The page's own files, which hold nothing of anybody's.
PUBLIC = {f"/{path.relative_to(STATIC)}" for path in STATIC.rglob("*") if path.is_file()} | {"/"}
#: What shows no token, or a wrong one.
SHUT_OUT = [
    {},
    {"Cookie": f"edgebench_token={TOKEN}"},
    {"Authorization": f"Bearer {TOKEN}x"},
    {"Authorization": f"Bearer {TOKEN[:-1]}"},
    {"Authorization": f"Bearer {TOKEN[:-1]}X"},
    {"Authorization": "Bearer "},
    {"Authorization": "Bearer"},
    {"Authorization": TOKEN},
    {"Authorization": f"Basic {TOKEN}"},
    {"Authorization": "Bearer \xff\xfe"},
]


def asked(served: Served, method: str, path: str, **headers: str):
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


@pytest.mark.process
def test_own_names_are_known(served: Served):
    for host in (f"localhost:{served.port}", f"127.0.0.1:{served.port}", "[::1]:1", "localhost"):
        assert served.get("/api/sweeps", Host=host).status == 200


@pytest.mark.process
@pytest.mark.promise(
    "Another site can't use the page, and requests under another host name are refused."
)
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
def test_another_sites_post_is_refused(tmp_path: Path, headers: dict[str, str]):
    with serving(tmp_path / "results", AccessRules("127.0.0.1")) as served:
        assert asked(served, "POST", "/api/start", **headers).status == 403
        assert not served.page_sweep.folder.exists()
    with serving(tmp_path / "results") as served:
        assert asked(served, "POST", "/api/start", **headers).status in (401, 403)


@pytest.mark.process
@pytest.mark.promise(
    "Another site can't use the page, and requests under another host name are refused."
)
@pytest.mark.parametrize(
    "path", ["/api/predictions?sweep=x", "/api/answer", "/api/sweeps", "/js/main.js", "/api/live"]
)
def test_another_site_can_ask_for_nothing(served: Served, path: str):
    assert served.get(path, Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="no-cors").status == 403
    assert served.get("/", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="navigate").status == 200


@pytest.mark.process
def test_a_large_body_is_refused(served: Served):
    assert served.post("/api/check", {"x": "y" * 100_000}).status == 403


@pytest.mark.process
def test_every_answer_has_the_headers(served: Served):
    for answer in (served.get("/"), served.get("/js/main.js"), served.get("/", Host="x.example")):
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self';" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"


@pytest.mark.process
@pytest.mark.promise(
    "Every address but the page's own files needs the token, for other users of the machine too."
)
def test_every_address_is_a_route_that_is_tried(served: Served):
    assert all(type(route) is Route for route in served.app.routes)
    assert {route.path.replace("{job}", "none") for route in served.app.routes} == {
        path for _, path in ROUTES
    }
    assert {"/", "/api/live", "/api/start", "/js/main.js"} <= {path for _, path in ROUTES}


@pytest.mark.process
@pytest.mark.promise(
    "Every address but the page's own files needs the token, for other users of the machine too."
)
@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_no_route_opens_without_the_token(with_sweep: Served, method: str, path: str):
    if path in PUBLIC:
        assert asked(with_sweep, method, path).headers["connection"] == "close"
        return
    for headers in SHUT_OUT:
        answer = asked(with_sweep, method, path, **headers)
        assert answer.status == 401, headers
        assert answer.headers["www-authenticate"] == "Bearer"
        assert b"#token=" in answer.body
        assert len(answer.body) < 500
    assert asked(with_sweep, method, f"{path}?token={TOKEN}").status == 401


@pytest.mark.process
@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_every_route_opens_with_the_token(with_sweep: Served, method: str, path: str):
    if path == "/api/live":
        with with_sweep.stream() as events:
            assert next(events)[0] == "state"
        return
    for word in ("Bearer", "token"):
        answer = with_sweep.get if method == "GET" else with_sweep.post
        assert answer(path, Authorization=f"{word} {TOKEN}").status in (200, 422)


@pytest.mark.process
def test_an_address_that_is_not_there_tells_nothing(served: Served):
    assert asked(served, "GET", "/nowhere").status == 401
    assert served.get("/nowhere").status == 404


@pytest.mark.process
def test_a_script_posts_with_the_header_alone(served: Served):
    assert served.post("/api/stop", Origin="").status == 422
    assert served.post("/api/stop", Origin="", Content_Type="text/plain").status == 403


@pytest.mark.process
def test_without_a_token_a_header_opens_no_other_door(tmp_path: Path):
    with serving(tmp_path, AccessRules("127.0.0.1")) as served:
        assert asked(served, "GET", "/").status == 200
        evil = {"Origin": "http://evil.example", "Authorization": "Bearer x"}
        assert served.post("/api/start", **evil).status == 403


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("127.0.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("lan", False)],
)
def test_what_is_loopback(host: str, loopback: bool):
    assert is_loopback(host) is loopback


def test_on_every_address_only_addresses_and_own_names_are_known():
    """Served to the network, a name of somebody else's still opens nothing."""
    rules = AccessRules("0.0.0.0", "t")
    assert rules.knows_host("192.168.1.7:8642")
    assert rules.knows_host("[fe80::1]:8642")
    assert not rules.knows_host("evil.example:8642")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_the_page_makes_no_markup_from_data(path: Path):
    if path.parent.name == "vendor":
        return
    text = path.read_text()
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(", text)
    assert not re.search(r"https?://(?!www\.w3\.org)", text)
    assert not re.search(r"\bon[a-z]+=|javascript:|<style|style=", text) or path.suffix == ".js"


@pytest.mark.process
def test_no_path_leads_out_of_the_page(served: Served):
    for path in ("/../app.py", "/js/../../app.py", "/%2e%2e/app.py", "/vendor/", "/.serve/x.json"):
        assert served.get(path).status == 404
