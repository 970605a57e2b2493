"""seaborn's colours and style, as data.

To import seaborn takes half a second, as all of its plots and ``scipy.stats`` come with it; figures
here need a list of colours, a scale and a table of parameters. A test compares them with seaborn's.
"""

from __future__ import annotations

from typing import Any


def _colours(digits: str) -> tuple[tuple[float, float, float], ...]:
    """Colours of six hexadecimal digits each."""
    values = [value / 255 for value in bytes.fromhex(digits)]
    return tuple(zip(values[::3], values[1::3], values[2::3], strict=True))


#: ``colorblind``: colours that colour-blind people can tell apart.
COLOUR_BLIND = _colours("0173b2de8f05029e73d55e00cc78bcca9161fbafe4949494ece13356b4e9")
#: ``rocket``: from black to nearly white.
ROCKET = _colours(
    "03051a04051a05061b06071c07071d08081e0a091f0b09200d0a210e0b22100b23110c24130d25140e26160e27"
    "170f28180f291a102a1b112b1d112c1e122d20122e2113302213312414322514332715342815352a16362b1637"
    "2d17382e173930173a31183b33183c34193d35193e37193f381a403a1a413c1a423d1a423f1b43401b44421b45"
    "431c46451c47461c48481c48491d494b1d4a4c1d4b4e1d4b501d4c511e4d531e4d541e4e561e4f581e4f591e50"
    "5b1e515c1e515e1f52601f52611f53631f53641f54661f54681f55691f556b1f566d1f566e1f57701f57711f57"
    "731f58751f58761f58781f597a1f597b1f597d1f5a7f1e5a811e5a821e5a841e5a861e5b871e5b891e5b8b1d5b"
    "8c1d5b8e1d5b901d5b921c5b931c5b951c5b971c5b981b5b9a1b5b9c1b5b9e1a5b9f1a5ba11a5ba3195ba4195b"
    "a6195aa8185aaa185aab185aad1759af1759b01759b21758b41658b51657b71657b91657ba1656bc1656bd1655"
    "bf1654c11754c21753c41753c51852c71951c81951ca1a50cb1b4fcd1c4ece1d4ecf1e4dd11f4cd2204cd3214b"
    "d5224ad62449d72549d82748d92847db2946dc2b46dd2c45de2e44df2f44e03143e13342e23442e33641e43841"
    "e53940e63b40e73d3fe83f3fe8403ee9423eea443eeb463eeb483eec4a3eec4c3eed4e3eed503eee523fee543f"
    "ef5640ef5840ef5a41f05c42f05e42f06043f16244f16445f16646f26747f26948f26b49f26d4bf26f4cf3714d"
    "f3734ef37450f37651f37852f47a54f47c55f47d57f47f58f4815af4835bf4845df4865ef58860f58a61f58b63"
    "f58d64f58f66f59067f59269f5946bf5966cf5976ef59970f69b71f69c73f69e75f6a077f6a178f6a37af6a47c"
    "f6a67ef6a880f6a981f6ab83f6ad85f6ae87f6b089f6b18bf6b38df6b48ff6b691f6b893f6b995f6bb97f6bc99"
    "f6be9bf6bf9df6c19ff7c2a2f7c4a4f7c6a6f7c7a8f7c9aaf7caacf7ccaff7cdb1f7cfb3f7d0b5f8d1b8f8d3ba"
    "f8d4bcf8d6bef8d7c0f8d9c3f8dac5f8dcc7f9ddc9f9dfcbf9e0cdf9e2d0f9e3d2f9e5d4fae6d6fae8d8fae9da"
    "faebdd"
)
#: ``axes_style("ticks")``, but for the colour map of images.
TICKS: dict[str, Any] = {
    "figure.facecolor": "white",
    "axes.labelcolor": ".15",
    "xtick.direction": "out",
    "ytick.direction": "out",
    "xtick.color": ".15",
    "ytick.color": ".15",
    "axes.axisbelow": True,
    "grid.linestyle": "-",
    "text.color": ".15",
    "font.family": ["sans-serif"],
    "font.sans-serif": [
        *("Arial", "DejaVu Sans", "Liberation Sans", "Bitstream Vera Sans", "sans-serif"),
    ],
    "lines.solid_capstyle": "round",
    "patch.edgecolor": "w",
    "patch.force_edgecolor": True,
    "xtick.top": False,
    "ytick.right": False,
    "axes.grid": False,
    "axes.facecolor": "white",
    "axes.edgecolor": ".15",
    "grid.color": ".8",
    "axes.spines.left": True,
    "axes.spines.bottom": True,
    "axes.spines.right": True,
    "axes.spines.top": True,
    "xtick.bottom": True,
    "ytick.left": True,
}


def light_to_dark(count: int) -> list[tuple[float, float, float]]:
    """So many colours of :data:`ROCKET`, its ends left out: seaborn's ``rocket_r``."""
    places = (int(len(ROCKET) * (n + 1) / (count + 1)) for n in range(count))
    return [ROCKET[-1 - place] for place in places]
