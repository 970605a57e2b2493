"""The studies' scenarios: each is valid, describes itself, and asks what its study needs."""

from __future__ import annotations

from edgebench.scenario.points import points
from edgebench.scenario.scenario import load_scenario
from edgebench.scenario.shipped import SHIPPED

STUDIES = [*sorted((SHIPPED / "lowpower").glob("*.toml")), SHIPPED / "hyperparameters.toml"]


def test_each_is_valid_and_called_as_its_file():
    """It loads, and says what it is about."""
    for file in STUDIES:
        scenario = load_scenario(file)
        assert scenario.name == file.stem
        assert scenario.description


def settings_of(name: str) -> list[dict[str, object]]:
    """The settings of every point of a study's scenario."""
    return [point.settings for point in points(load_scenario(SHIPPED / f"{name}.toml"))]


def test_convolutions_cover_what_work_e_varied():
    """Kernels 1 to 11, batches 1 to 64, both kinds of pass, and stacks for the larger kernels."""
    made = settings_of("lowpower/conv") + settings_of("lowpower/conv-batch")
    assert {s["kernel"] for s in made} == set(range(1, 12))
    assert {1, 2, 4, 8, 16, 32, 64} <= {s["batch"] for s in made}
    assert {s["backward"] for s in made} == {True, False}
    assert {s["stack"] for s in made} == {1, 2}


def test_the_search_draws_all_that_work_c_drew():
    """Each draw with each data set, with and without a neighbour; all five settings vary."""
    made = settings_of("hyperparameters")
    assert len(made) == 24 * 2 * 2
    for name in ("learning_rate", "epochs", "batch", "depth", "width"):
        assert len({s[name] for s in made}) > 3
    assert {s["background_bytes"] for s in made} == {0, 512 << 20}


def test_parts_are_those_of_work_e():
    """Layers and filters at each share, the last layer, and all of them."""
    parts = {str(s["trained"]) for s in settings_of("lowpower/partial")}
    shares = {f"{kind} {share}%" for kind in ("filters", "layers") for share in (20, 40, 60, 100)}
    assert parts == shares | {"all", "last"}
