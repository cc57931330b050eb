"""Labels of heatmaps: all on the page, none over another, none too small, whatever the tokens are."""

import pytest
import torch

from course_lib.pictures import compare, head_heatmaps, heatmap

from .figure_checks import check_figure

TOKENS = {
    "long": lambda size: (["antidisestablishment", "it", "internationalization"] * size)[:size],
    "CJK": lambda size: (["大きな夢を見て", "夢", "注意"] * size)[:size],
    "indices": range,
}
TITLES = ["", "two tokens of padding on the left", "a title that goes on and on " * 5]
HEADS = [(1, 12), (2, 3), (3, 4), (6, 2), (6, 8), (8, 3), (12, 2), (40, 1), (40, 3)]

pytestmark = [
    pytest.mark.one_in(5),
    pytest.mark.filterwarnings("ignore:matplotlib finds no font"),
    pytest.mark.parametrize("tokens", TOKENS.values(), ids=TOKENS),
]


def weights(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(0)).softmax(dim=-1)


@pytest.mark.slow
@pytest.mark.parametrize("size", (1, 2, 3, 5, 8, 12))
def test_one_head(tokens, size, figures):
    title = TITLES[size % len(TITLES)]
    heatmap(weights(size, size), tokens(size), title=title)
    check_figure(figures[0])


@pytest.mark.slow
@pytest.mark.parametrize("title", TITLES)
def test_titles(tokens, title, figures):
    for size in (1, 6):
        heatmap(weights(size, size), tokens(size), title=title)
    heatmap(weights(2, 6), tokens(2), key_words=tokens(6), title=title)
    heatmap(weights(6, 2), tokens(6), key_words=tokens(2), title=title)
    for figure in figures:
        check_figure(figure)


@pytest.mark.slow
@pytest.mark.one_in(25)
@pytest.mark.parametrize(("size", "num_heads"), HEADS)
def test_several_heads(tokens, size, num_heads, figures):
    title = TITLES[num_heads % len(TITLES)]
    head_heatmaps(weights(num_heads, size, size), tokens(size), title=title)
    check_figure(figures[0])


def test_titles_of_heads(tokens, figures):
    titles = ["work for it (pad) (pad) (pad)", "queries_by_head_after_rotation", "calm"]
    for size in (1, 6):
        head_heatmaps(weights(3, size, size), tokens(size), titles=titles)
    for figure in figures:
        check_figure(figure)


@pytest.mark.one_in(15)
@pytest.mark.parametrize("size", [1, 3, 6, 8, 20])
def test_comparisons(tokens, size, figures):
    compare(*weights(2, size, size), tokens(size), names=("your head 0", "attention"), title=TITLES[size % len(TITLES)])
    check_figure(figures[0])


def test_rows_that_see_nothing(tokens, figures):
    for size in (1, 2, 6, 8):
        keep = torch.ones(size, size).tril() * (torch.arange(size) > 0)[:, None]
        heatmap(weights(size, size) * keep, tokens(size))
    for figure in figures:
        check_figure(figure)
