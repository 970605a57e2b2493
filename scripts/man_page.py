"""Writes edgebench(1) for the wheel: a build hook of hatchling, which needs no library of ours."""

from __future__ import annotations

import runpy
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_PAGE = r""".TH EDGEBENCH 1 "" "edgebench {version}"
.SH NAME
edgebench \- run programs and neural networks under real memory limits
.SH SYNOPSIS
.B edgebench
.I VERB
[\fIOPTIONS\fR] [\fIARGUMENTS\fR]
.br
.B edgebench
.I VERB
.B \-\-help
.SH DESCRIPTION
Runs a program or a network in a control group, at one memory limit after another, and measures it
from outside.
Making a control group takes root or a delegated one:
.B edgebench doctor
says how to get it.
{verbs}.SH EXIT STATUS
0 done (a planned kill is a result); 1 the user's or the machine's fault; 2 usage;
3 done, but some trials failed; 4 a regression, or over budget; 5 this machine can't measure;
130, 143 interrupted, what finished is kept.
.SH FILES
.TP
.I results/
Where sweeps are kept.
.SH EXAMPLES
.nf
edgebench minimum \-\- python3 train.py
edgebench layers resnet18 \-\-memory 60% \-\-swap 2G
edgebench run quickstart
.fi
"""


def man_page(root: Path, version: str) -> str:
    """The page, with all verbs."""
    groups = runpy.run_path(str(root / "edgebench" / "cli" / "verbs.py"))["GROUPS"]
    lines = []
    for group, verbs in groups.items():
        lines.append(f".SH {group.upper()}\n")
        lines += [f".TP\n.B {verb}\n{text}\n" for verb, text in verbs.items()]
    return _PAGE.format(version=version, verbs="".join(lines).replace("-", r"\-"))


class ManPage(BuildHookInterface):  # type: ignore[type-arg]
    """Puts the page where ``man`` finds it: beside the folder of the programs."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Make the page before the wheel is packed."""
        if version == "editable":
            return
        page = Path(tempfile.mkdtemp(), "edgebench.1")
        page.write_text(man_page(Path(self.root), self.metadata.version))
        build_data["shared_data"][str(page)] = "share/man/man1/edgebench.1"
        self._made = page

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what was made for it."""
        if version != "editable":
            self._made.unlink()
            self._made.parent.rmdir()
