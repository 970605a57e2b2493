"""The colours that figures have as data are seaborn's own, and drawing needs no seaborn."""

from __future__ import annotations

import subprocess
import sys

import pytest
import seaborn as sns

from edgebench.report.figures.palettes import COLOUR_BLIND, TICKS, light_to_dark


def test_colours_are_seaborns():
    """The same ten colours, and any number of steps of the same scale, to a 256th."""
    assert list(COLOUR_BLIND) == [tuple(colour) for colour in sns.color_palette("colorblind")]
    for count in range(1, 60):
        for mine, theirs in zip(
            light_to_dark(count), sns.color_palette("rocket_r", count), strict=True
        ):
            assert mine == pytest.approx(tuple(theirs), abs=0.5 / 255)


def test_the_style_is_seaborns():
    """Every parameter but the colour map of images, which no figure has."""
    theirs = sns.axes_style("ticks")
    assert theirs.pop("image.cmap") == "rocket"
    assert theirs == TICKS


@pytest.mark.process
def test_figures_need_no_seaborn():
    """It takes half a second to import, for a list of colours."""
    code = (
        "import sys; from edgebench.report.figures import gallery; print('seaborn' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
