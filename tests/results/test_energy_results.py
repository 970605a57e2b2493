"""Energy from records to frames, tables, sentences and figures; results without it as before."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from energy_making import WARM, WATTS, events_at, make_energy_sweep
from results_making import make_sweep

from edgebench.cli.export import export
from edgebench.cli.show import show
from edgebench.errors import ResultsError
from edgebench.results.results import Results, load
from edgebench.spans import finished_spans


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """A sweep on a board with a rail."""
    return load(make_energy_sweep(tmp_path_factory.mktemp("energy")))


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """A sweep as versions before sensors wrote it."""
    path = make_sweep(tmp_path_factory.mktemp("older"))
    lines = [json.loads(line) for line in (path / "trials.jsonl").read_text().splitlines()]
    for line in lines:
        for key in ("energy", "energy_domain", "sensors"):
            del line[key]
    (path / "trials.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return load(path)


def test_a_round_s_energy_is_power_times_time(measured: Results):
    """At 5 W a steady round takes five joules a second; a pass of warm execution likewise."""
    trial = measured.trials.iloc[0]
    spans = finished_spans(events_at("max"))
    rounds = [span for span in spans if span.phase == "round"]
    passes = [span for span in spans if span.phase == "execute" and span.layer is None]
    assert trial["energy_domain"] == "module"
    assert trial["energy_round_j"] == pytest.approx(5 * rounds[-1].wall_s)
    assert trial["energy_execution_j"] == pytest.approx(5 * passes[-1].wall_s)
    assert len(passes) == WARM * len(rounds)
    whole = (spans[-1].end_ns - spans[0].start_ns) / 1e9
    assert trial["energy_j"] == pytest.approx(5 * whole)
    assert trial["energy_error_j"] == 0
    assert trial["sensors_temperature_max_c"] == 45


def test_a_killed_trial_without_readings_has_none(measured: Results):
    """No number is made up for it."""
    killed = measured.trials[measured.trials["outcome"] == "oom-killed"]
    assert killed["energy_j"].isna().all()
    assert killed["energy_domain"].isna().all()


def test_the_frame_of_energy_has_trials_and_rounds(measured: Results):
    """Each row's joules are its seconds times the power of that trial."""
    frame = measured.energy
    assert set(frame["part"]) == {"trial", "round"}
    rounds = frame[(frame["part"] == "round") & (frame["trial"] == "0001")]
    assert list(rounds["round"]) == [0, 1, 2, 3]
    assert rounds["stage"].iloc[0] == "start"
    assert rounds["energy_j"].to_numpy() == pytest.approx(5 * rounds["wall_s"].to_numpy())
    assert not measured.warnings


def test_the_frame_of_sensors_is_in_units_of_people(measured: Results):
    """Watts and degrees, on the time line of samples and events."""
    frame = measured.sensors("0001")
    assert list(frame) == ["t_ns", "ina3221.VDD_IN_w", "zone.cpu_c", "cooling.cpu_level"]
    assert set(frame["ina3221.VDD_IN_w"]) == {5.0}
    assert set(frame["zone.cpu_c"]) == {45.0}
    assert frame["t_ns"].is_monotonic_increasing


def test_older_results_are_read_as_before(older: Results):
    """Columns of energy are there and empty, the frame has no row, and the reason is named."""
    assert older.trials["energy_j"].isna().all()
    assert older.trials["energy_round_j"].isna().all()
    assert len(older.energy) == 0
    assert "energy_j" in older.energy
    with pytest.raises(ResultsError, match="no sensor was read"):
        older.sensors("0001")


def test_show_s_json_has_energy_with_its_error_and_domain(measured: Results):
    """Spread, error, domain and what it is of; the ratio to the unlimited round."""
    told = json.loads(CliRunner().invoke(show, [str(measured.path), "--json"]).output)
    at = {point["limits"]["label"]: point for point in told["points"]}
    assert at["150M"]["energy"]["domain"] == "module"
    assert at["150M"]["energy"]["part"] == "round"
    times = at["150M"]["times_s"]["steady"]["median"] / at["max"]["times_s"]["steady"]["median"]
    assert at["150M"]["energy_ratio"]["median"] == pytest.approx(times * WATTS["150M"] / 5)
    assert at["100M"]["energy"] is None


@pytest.mark.parametrize("frame", ["energy", "sensors"])
def test_both_frames_can_be_exported(measured: Results, frame: str):
    """As CSV, with a header of the frame's columns."""
    done = CliRunner().invoke(export, [str(measured.path), "--frame", frame])
    assert done.exit_code == 0, done.output
    assert ("energy_j" if frame == "energy" else "ina3221.VDD_IN_w") in done.output


def test_damaged_readings_are_named_and_left_out(tmp_path: Path):
    """A torn file costs its own rows of the frame alone."""
    path = make_energy_sweep(tmp_path)
    file = path / "samples" / "0001.npz"
    file.write_bytes(file.read_bytes()[:100])
    results = load(path)
    frame = results.energy
    assert "0001" not in set(frame["trial"])
    assert "0002" in set(frame["trial"])
    assert any("0001" in words for words in results.warnings)
