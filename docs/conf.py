"""The docs' site: ``sphinx-build -W docs build/docs`` (scripts/test builds it, strictly)."""

from __future__ import annotations

import sys
from pathlib import Path

import edgebench

project = "edgebench"
author = "the edgebench developers"
release = version = edgebench.__version__

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

extensions = [
    "myst_parser",
    "glossary_links",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
]
source_suffix = {".md": "markdown"}
nitpicky = False

myst_enable_extensions = ["deflist", "colon_fence"]
myst_heading_anchors = 3
# Links from a page to files of the repository that are no pages.
myst_links_external_new_tab = False

autodoc_typehints = "description"
autodoc_member_order = "bysource"
napoleon_google_docstring = True

html_theme = "furo"
html_title = "edgebench"
html_show_copyright = False
html_static_path: list[str] = []
html_theme_options = {"navigation_with_keys": True}
copybutton_prompt_text = "$ "
copybutton_only_copy_prompt_lines = True
