"""Boards and kinds of storage: every number has a source, and a damaged file says what it lacks."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from edgebench.boards import (
    FOLDER,
    board_from_file,
    board_names,
    find_board,
    known_boards,
    parse_storage,
    storage_presets,
)
from edgebench.cli.doctor import boards
from edgebench.errors import UsageError
from edgebench.text import MIB, parse_swap

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

#: Keys whose values need no source: names, and choices of ours.
OWN = {"schema", "title", "storage", "sources"}
SMALLEST = 'schema = 1\ntitle = "Made"\nram = "1GiB"\ncores = 2\n'


def sourced(table: Mapping[str, Any]) -> tuple[set[str], set[str]]:
    needed = {key for key in table if key not in OWN | {"speeds"}}
    for name, speeds in table.get("speeds", {}).items():
        needed |= {f"speeds.{name}.{key}" for key in speeds}
    return needed, {key for source in table["sources"] for key in source["of"]}


def test_every_number_of_a_board_has_a_source():
    for name in board_names():
        needed, named = sourced(tomllib.loads((FOLDER / "files" / f"{name}.toml").read_text()))
        assert needed == named, name


def test_every_speed_of_a_storage_has_a_source():
    for table in tomllib.loads((FOLDER / "storage.toml").read_text()).values():
        needed, named = sourced(table)
        assert needed == named


def test_every_board_can_be_emulated():
    for name, board in known_boards().items():
        assert 100 * MIB < board.left_bytes < board.usable_bytes <= board.ram_bytes, name
        assert parse_storage(board.speed.label) == board.speed, name
        assert not board.speed.as_is, name
        assert parse_swap(board.used_swap), name
        addresses = [source.address for source in board.sources]
        assert all(one.startswith("https://") for one in addresses), name


def test_a_slot_slower_than_its_card_holds_it():
    """A Raspberry Pi 4 reads a card at DDR50, whatever the card; the card's IOPS stay."""
    board, card = find_board("raspberry-pi-4-4g"), storage_presets()["sd-a1"].speed
    assert board.speed.read_bps == 50_000_000 < (card.read_bps or 0)
    assert board.speed.read_iops == card.read_iops == 1500
    assert board.speed_of("sd-a2").read_iops == 3200


def test_what_is_left_is_what_linux_has_less_the_system():
    """Of a Raspberry Pi 4: 4 GiB, less the GPU's 76 MiB, less the 220 MiB of an idle system."""
    board = find_board("raspberry-pi-4-4g")
    assert board.left_bytes == (4096 - 76 - 220) * MIB
    assert board.memory_label == "3800M"
    assert "220.0 MiB when idle" in board.left_words
    assert "(an assumption)" in find_board("beaglebone-ai-64").left_words


def test_a_wrong_name_is_answered_with_the_nearest():
    with pytest.raises(UsageError, match="did you mean 'jetson-nano-4g'"):
        find_board("jetson-nano")
    with pytest.raises(UsageError, match="did you mean 'raspberry-pi-4-"):
        find_board("raspberrypi4")
    with pytest.raises(UsageError, match="did you mean 'emmc'"):
        parse_storage("emcc")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no title"),
        ("ram =", "not TOML"),
        (SMALLEST + 'colour = "green"\n', "no key 'colour'"),
        (SMALLEST.replace("schema = 1", "schema = 2"), "schema is not 1"),
        (SMALLEST.replace("1GiB", "much"), "'much'"),
        (SMALLEST.replace("cores = 2", "cores = 0"), "cores = 0 is not a count"),
        (SMALLEST + 'storage = ["floppy"]\n', "no storage 'floppy'"),
        (SMALLEST + 'swap = "tape:1G"\n', "no swap of kind 'tape'"),
        (SMALLEST + '[speeds.sd-a1]\nread = "90"\n', "is not a speed"),
        (SMALLEST + '[[sources]]\ntitle = "a page"\n', "a source has the keys"),
        (SMALLEST + "speeds = 3\n", "no board"),
    ],
)
def test_a_file_that_is_no_board_says_why(tmp_path: Path, text: str, says: str):
    (tmp_path / "made.toml").write_text(text)
    with pytest.raises(UsageError, match=says) as refused:
        board_from_file(tmp_path / "made.toml")
    assert str(tmp_path) in str(refused.value)
    assert refused.value.remedy


def test_the_verb_lists_all_and_shows_one(tmp_path: Path):
    listed = CliRunner().invoke(boards, [])
    assert all(name in listed.output for name in board_names())
    shown = CliRunner().invoke(boards, ["rock-5b-4g"])
    assert "8 (4× Cortex-A76, 4× Cortex-A55)" in shown.output
    assert "storage emmc" in shown.output
    assert "https://github.com/geerlingguy/sbc-reviews/issues/3" in shown.output
    (tmp_path / "made.toml").write_text(SMALLEST)
    own = CliRunner().invoke(boards, [str(tmp_path / "made.toml"), "--json"])
    assert json.loads(own.output)["board"]["left_bytes"] == 768 * MIB
    storage = CliRunner().invoke(boards, ["--storage"])
    assert all(name in storage.output for name in storage_presets())
    assert isinstance(CliRunner().invoke(boards, ["x", "--storage"]).exception, UsageError)
