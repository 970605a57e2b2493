"""A machine that makes no trial: it answers well, but for what its words change, as JSON.

``hello``, ``lacking``, ``networks``: in place of what it says at first. In each trial, for once or
``endless``: ``raw`` text, a ``file`` with ``size``, a ``record`` with these changes.
"""

from __future__ import annotations

import base64
import json
import sys
from typing import Any

from edgebench import __version__


def send(message: str, **data: Any) -> None:
    sys.stdout.write(json.dumps({"is": message, **data}) + "\n")
    sys.stdout.flush()


def answer(way: dict[str, Any], planned: dict[str, Any]) -> None:
    if "raw" in way:
        sys.stdout.buffer.write(way["raw"].encode("latin-1"))
        sys.stdout.buffer.flush()
    if "file" in way:
        kind, name = way["file"]
        data = base64.b64encode(b"x" * way.get("size", 4)).decode()
        send("file", kind=kind, trial=name.replace("TRIAL", planned["trial"]), data=data)
    record = {
        **{key: planned[key] for key in ("trial", "block", "repeat")},
        "point": planned["point_id"],
        "settings": {"kind": "command", "command": ["true"]},
        "limits": {"label": {"p001": "max", "p002": "64M", "p003": "32M"}[planned["point_id"]]},
        "outcome": "ok",
        "started_utc": "2026-01-01T00:00:00",
        "wall_s": 0.1,
    }
    if "record" in way or not way.get("endless"):
        send("record", record={**record, **way.get("record", {})}, last=not way.get("endless"))


def main(way: dict[str, Any]) -> None:
    sys.stdout.buffer.write(b"Welcome to this machine!\n" + b"\xff\xfe\n" + b"x" * 100_000 + b"\n")
    send("hello", **{"edgebench": __version__, **way.get("hello", {})})
    sys.stdin.readline()
    send("lacking", files=way.get("lacking", []))
    for number in range(200):
        send("beat", text=f"stage {number} \x1b[31m")
    manifest = {"networks": way.get("networks", {})}
    send("ready", manifest=manifest, environment={"device": "../../evil"})
    for line in sys.stdin:
        order = json.loads(line)
        if order["is"] != "make":
            continue
        if "exit" in way:
            raise SystemExit(way["exit"])
        answer(way, order["planned"])
        while way.get("endless"):
            answer(way, order["planned"])


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
