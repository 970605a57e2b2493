"""Links the first use of each word of the glossary on a page to its entry.

The pages stay plain Markdown: the links exist on the site only. Headings, code, links and the
glossary itself are left alone.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.nodes import make_refnode

GLOSSARY = "glossary"
_ENTRY = re.compile(r"^### (.+)$", re.MULTILINE)
#: Text in these is not prose.
_APART = (nodes.title, nodes.literal, nodes.literal_block, nodes.reference, nodes.caption)


def words_of(page: str) -> list[str]:
    """Return the glossary's words, in the order of its headings."""
    return _ENTRY.findall(page)


def _pattern(word: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w-]){re.escape(word)}s?(?![\w-])", re.IGNORECASE)


def _texts(doctree: nodes.document) -> list[nodes.Text]:
    def apart(node: nodes.Node | None) -> bool:
        while node is not None:
            if isinstance(node, (*_APART, nodes.raw)):
                return True
            node = node.parent
        return False

    return [text for text in doctree.findall(nodes.Text) if not apart(text.parent)]


def link_first_uses(app: Sphinx, doctree: nodes.document, page: str) -> None:
    """Replace each word's first use on the page by a link."""
    if page == GLOSSARY:
        return
    for word in app.env.glossary_words:  # type: ignore[attr-defined]
        for text in _texts(doctree):
            found = _pattern(word).search(str(text))
            if not found:
                continue
            before, used, after = (
                str(text)[: found.start()],
                found[0],
                str(text)[found.end() :],
            )
            link = make_refnode(
                app.builder, page, GLOSSARY, nodes.make_id(word), nodes.Text(used), word
            )
            text.parent.replace(text, [nodes.Text(before), link, nodes.Text(after)])
            break


def _read_words(app: Sphinx) -> None:
    page = (Path(app.srcdir) / f"{GLOSSARY}.md").read_text()
    app.env.glossary_words = words_of(page)  # type: ignore[attr-defined]


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.connect("builder-inited", _read_words)
    app.connect("doctree-resolved", link_first_uses)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
