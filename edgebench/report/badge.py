"""A badge for a README: ``memory | runs in 463 MiB; takes 2.3× as long in 324 MiB``, as SVG."""

from __future__ import annotations

from html import escape

from edgebench.results.facts import WorkloadFacts
from edgebench.words.in_short import badge_words

_LABEL = "memory"
_SIZE_PX, _PADDING_PX, _HEIGHT_PX = 11, 6, 20
#: White on these has a contrast of 7 and 6; both stand out from a white and from a dark page.
_LABEL_COLOUR, _COLOUR = "#555", "#0b5cad"
#: Verdana's advance widths, in 2048ths of the size (its hmtx table); digits and others: 1302.
_EM, _USUAL = 2048, 1302
_WIDTHS = dict(
    zip(
        "abcdefghijklm",
        (1230, 1276, 1067, 1276, 1220, 720, 1276, 1296, 562, 705, 1212, 562, 1992),
        strict=True,
    )
)
_WIDTHS |= dict(
    zip(
        "nopqrstuvwxyz",
        (1296, 1243, 1276, 1276, 874, 1067, 807, 1296, 1212, 1676, 1212, 1212, 1076),
        strict=True,
    )
)
_WIDTHS |= {" ": 720, ".": 745, ";": 930, "B": 1404, "G": 1588, "M": 1726, "×": 1676}


def badge(workload: WorkloadFacts) -> str:
    """The badge of one workload.

    Raises:
        ResultsError: its demand is unknown.
    """
    message = badge_words(workload)
    left, right = _width_px(_LABEL), _width_px(message)
    whole = f"{_LABEL}: {message}"
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="{_HEIGHT_PX}" role="img" \
aria-label="{escape(whole)}">
<title>{escape(whole)}</title>
<clipPath id="r"><rect width="{left + right}" height="{_HEIGHT_PX}" rx="3"/></clipPath>
<g clip-path="url(#r)">
<rect width="{left}" height="{_HEIGHT_PX}" fill="{_LABEL_COLOUR}"/>
<rect x="{left}" width="{right}" height="{_HEIGHT_PX}" fill="{_COLOUR}"/>
</g>
<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="{_SIZE_PX}">
{_text(0, left, _LABEL)}
{_text(left, right, message)}
</g>
</svg>
"""


def _width_px(words: str) -> int:
    return round(_text_px(words)) + 2 * _PADDING_PX


def _text_px(words: str) -> float:
    return sum(_WIDTHS.get(sign, _USUAL) for sign in words) * _SIZE_PX / _EM


def _text(x: int, width: int, words: str) -> str:
    """The words in the middle, at the width that was reckoned with, in whatever font there is."""
    return (
        f'<text x="{x + width / 2:g}" y="14" text-anchor="middle" '
        f'textLength="{_text_px(words):.1f}" lengthAdjust="spacingAndGlyphs">{escape(words)}</text>'
    )
