"""Each drawing has colours for light and dark surroundings, with the same contrasts."""

import base64
import math
import re
import xml.etree.ElementTree as ElementTree
from itertools import combinations

import pytest
import torch

from course_lib.inputs import dream_big
from course_lib.pictures import PALETTE, bar_chart, draw_vectors, heatmap, weight_color
from course_lib.pictures.dark import NIGHT, contrast, in_the_dark, luminance, with_dark_colors
from course_lib.pictures.style import HEADS, INK, SHADES


def test_contrast_is_that_of_the_guidelines():
    assert contrast("#000", "#FFFFFF") == pytest.approx(21) and contrast("#767676", "#FFF") == pytest.approx(
        4.54, abs=0.01
    )
    assert luminance("#808080") == pytest.approx(0.2159, abs=1e-4)  # of WCAG's formula, by hand


def test_every_two_colours_keep_their_contrast_in_the_dark():
    assert in_the_dark("#FFF") == NIGHT
    for one, other in combinations(PALETTE.values(), 2):
        before, after = contrast(one, other), contrast(in_the_dark(one), in_the_dark(other))
        assert after == pytest.approx(before, rel=0.02), (one, other)


def test_a_drawing_has_colours_for_both_themes():
    svg = '<svg xmlns="http://www.w3.org/2000/svg"><rect fill="#FFF"/><style>svg{fill:#1F2328}</style></svg>'
    both = with_dark_colors(svg)
    ElementTree.fromstring(both)
    assert f'[fill="#FFF"]{{fill:{NIGHT}}}' in both and f"svg{{fill:{in_the_dark('#1F2328')}}}" in both
    assert both.startswith(svg.removesuffix("</svg>"))  # the light ones stay
    assert with_dark_colors(both) == both


def test_what_a_page_shows_has_them_in_every_drawing():
    chart, plane = bar_chart({"a": 1.0}, title="t", unit="ms"), draw_vectors({"key": torch.eye(2)})
    for picture in (chart, plane, chart.above(plane, caption="Both.")):
        for data in re.findall(r"data:image/svg\+xml;base64,([\w+/=]+)", picture._repr_html_()):
            svg = base64.b64decode(data).decode()
            ElementTree.fromstring(svg)
            assert "@media (prefers-color-scheme:dark){" in svg and f'[fill="#FFF"]{{fill:{NIGHT}}}' in svg
    # The rule for matplotlib's texts without a colour of their own must not paint those of a drawing beside it.
    assert re.findall(r"[}{]([^{}]*)text:not", chart.svg) == ["#figure_1 "]


@pytest.mark.slow
def test_the_cells_of_a_heatmap_have_the_colours_of_weights():
    """In light and dark surroundings, as the cells of a drawing have them."""
    weights = (dream_big().batch[0] @ dream_big().batch[0].mT).softmax(-1)
    both = heatmap(weights).svg
    mesh = re.search(r'<g id="QuadMesh_1">(.*?)</g>', both, re.DOTALL)[1]
    found = [bytes.fromhex(color) for color in re.findall(r"fill: #(\w+)", mesh)]
    wanted = [bytes.fromhex(weight_color(weight)[1:]) for weight in weights.flatten().tolist()]
    assert len(found) == 36
    assert all(abs(a - b) < 2 for pair in zip(found, wanted, strict=True) for a, b in zip(*pair, strict=True))
    for color in found:
        assert f'[style*="fill: #{color.hex()}"]{{fill:{in_the_dark("#" + color.hex())}!important}}' in both


def test_no_head_has_a_colour_of_weights_and_each_can_be_written_on():
    scale = [weight_color(step / 100) for step in range(101)]
    assert (scale[0], scale[60], scale[100]) == (SHADES[0], SHADES[3], SHADES[5])
    for color in scale:
        assert contrast(color, INK) > 4.5 < contrast(in_the_dark(color), in_the_dark(INK))
        assert min(math.dist(bytes.fromhex(color[1:]), bytes.fromhex(head[1:])) for head in HEADS) > 12, color
