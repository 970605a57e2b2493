"""An unknown option is refused with the option of that verb that was probably meant."""

from __future__ import annotations

import click
import pytest

from edgebench.cli import cli, unknown_option_error


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("minimum lenet --memory 300M", " Did you mean '--within'?"),
        ("advise --within 300M -- true", " Did you mean '--memory'?"),
        ("measure --memroy 300M true", " Did you mean '--memory'?"),
        ("show --jsno", " Did you mean '--json'?"),
        ("measure --zzz -- true", ""),
    ],
)
def test_the_option_that_was_meant_is_named(words: str, hint: str):
    with pytest.raises(click.NoSuchOption) as refused:
        cli.main(words.split(), prog_name="edgebench", standalone_mode=False)
    said = unknown_option_error(refused.value).message
    assert said.endswith(f"'.{hint}")
