"""An unknown option is refused with the option of that verb that was probably meant."""

from __future__ import annotations

import click
import pytest

from edgebench.cli import cli, similar_options


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("minimum lenet --memory 300M", ["--within"]),
        ("advise --within 300M -- true", ["--memory"]),
        ("measure --memroy 300M true", ["--memory"]),
        ("show --jsno", ["--json"]),
        ("measure --foo -- true", []),
    ],
)
def test_the_option_that_was_meant_is_named(words: str, meant: list[str]):
    """By meaning first, then by spelling; what is like none gets no hint."""
    with pytest.raises(click.NoSuchOption) as refused:
        cli.main(words.split(), prog_name="edgebench", standalone_mode=False)
    assert similar_options(refused.value) == meant
