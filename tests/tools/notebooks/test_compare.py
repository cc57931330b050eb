"""Outputs are compared up to the last digit of a float, and in nothing else."""

import base64

import pytest

from tools.notebooks.compare import CloseText, same_output
from tools.notebooks.nbval_hooks import pytest_itemcollected
from tools.notebooks.outputs import count_pictures, first_difference, merge_streams, same_outputs


def svg(text: str) -> str:
    data = base64.b64encode(f"<svg xmlns='http://www.w3.org/2000/svg'>{text}</svg>".encode()).decode()
    return f'<figure><img alt="two heads" src="data:image/svg+xml;base64,{data}"></figure>'


MATPLOTLIB = "<!-- Created with matplotlib -->"

SAME = [
    ("0.12345", "0.12346"),
    ("-0.0000", "0.0000"),
    ("[ 0.0000, 1.0000]", "[-0.0000, 1.0000]"),
    ("0.1234", "0.12341"),
    ("0.123", "0.1241"),
    ("1.", "1.0000"),
    ("1234567.25", "1234569.00"),
    ("1e-06", "1e-6"),
    ("1.1234e-07", "1.1235e-07"),
    ("tensor([0.1000,\n        0.2000])", "tensor([0.1000, 0.2000])"),
    ("a  b\n", "a b"),
    ("the sum is 0.9999.", "the sum is 1.0000."),
    ("0.5000x faster", "0.5001x faster"),
    ('<img src="data:image/png;base64,AAAA">', '<img src="data:image/png;base64,BBBB">'),
    (svg("width 0.1234"), svg("width 0.1235")),
    (svg(MATPLOTLIB + "one"), svg(MATPLOTLIB + "two")),
    ("<svg><!-- matplotlib -->1</svg>", "<svg><!-- matplotlib -->2</svg>"),
]

DIFFERENT = [
    ("0.1234", "0.1334"),
    ("0.1234", "0.1236"),
    ("0.1", "0.2"),
    ("0.25", "0.26"),
    ("1.", "2."),
    ("n=3", "n=4"),
    ("(2, 4)", "(2, 8)"),
    ("torch.Size([2, 4])", "torch.Size([2, 8])"),
    ("nan", "0.1234"),
    ("0.1234", "nan"),
    ("inf", "0.1234"),
    ("inf", "-inf"),
    ("0.1234", "-0.1234"),
    ("version 3.11.7", "version 3.11.8"),
    ("2.6.001", "2.6.002"),
    ("head 0", "head 1"),
    ("word", "world"),
    ("0.1234 0.5678", "0.1234"),
    ("1e-06", "1e-05"),
    ('<img alt="one" src="data:image/png;base64,AAAA">', '<img alt="two" src="data:image/png;base64,AAAA">'),
    ('<img src="data:image/png;base64,AAAA">', ""),
    ('<img src="data:image/png;base64,AAAA">', '<img src="data:image/jpeg;base64,AAAA">'),
    (svg("width 0.1234"), svg("width 0.1334")),
    (svg("head 1"), svg("head 2")),
    ('<img src="data:image/svg+xml;base64,?">', '<img src="data:image/svg+xml;base64,!">'),
    ('<img src="data:image/svg+xml,%3Csvg%3E1">', '<img src="data:image/svg+xml,%3Csvg%3E2">'),
]


@pytest.mark.parametrize(("old", "new"), SAME)
def test_the_same(old, new):
    assert same_output(old, new)
    assert same_output(new, old)
    assert CloseText(old) == new
    assert CloseText(old) == CloseText(new)
    assert (CloseText(old) != new) is False  # nbval asks with !=


@pytest.mark.parametrize(("old", "new"), DIFFERENT)
def test_different(old, new):
    assert not same_output(old, new)
    assert not same_output(new, old)
    assert CloseText(old) != new
    assert CloseText(old) != CloseText(new)
    assert (CloseText(old) == new) is False


def test_close_text_is_a_text():
    assert CloseText("0.1") != 0.1
    assert {CloseText("a"): 1}["a"] == 1
    assert "base64" not in CloseText('<img src="data:image/png;base64,AAAA">')


def shown(**data):
    return {"output_type": "display_data", "data": {key.replace("_", "/"): value for key, value in data.items()}}


def printed(text, name="stdout"):
    return {"output_type": "stream", "name": name, "text": text}


def test_pictures_are_counted():
    assert count_pictures([shown(image_png="AAAA"), shown(text_html="<img alt='a'><svg></svg>"), printed("<img>")]) == 3
    assert count_pictures([shown(text_plain="<Figure size 640x480 with 1 Axes>")]) == 0


def test_outputs_keep_only_what_says_the_same():
    assert same_outputs([printed("0.1234")], [printed("0.1235")])
    assert not same_outputs([printed("0.1234")], [printed("0.1334")])
    assert not same_outputs([printed("a")], [printed("a", "stderr")])
    assert not same_outputs([printed("a")], [printed("a"), printed("b")])
    assert same_outputs([shown(image_png="AAAA")], [shown(image_png="AAAA")])
    assert not same_outputs([shown(image_png="AAAA")], [shown(image_png="BBBB")])
    one, other = ('<img alt="a" src="data:image/png;base64,' + data + '">' for data in ("AAAA", "BBBB"))
    assert not same_outputs([shown(text_html=one)], [shown(text_html=other)])


class IPyNbCell:
    """What the hooks see of nbval's cell."""

    def __init__(self):
        self.comparison_traceback = []

    def sanitize(self, text):
        return text

    def compare_outputs(self, test, ref, skip_compare=None):
        return "asked nbval"


def test_the_hooks_change_nbvals_cells_and_no_other_test():
    cell, other = IPyNbCell(), object()
    pytest_itemcollected(other)
    pytest_itemcollected(cell)
    assert cell.sanitize("0.1234") == "0.1235" and cell.sanitize({"a": 1}) == {"a": 1}
    assert cell.compare_outputs([], []) == "asked nbval"
    assert cell.compare_outputs([], [shown(image_png="AAAA")]) is False
    assert cell.comparison_traceback == ["The notebook stores 1 picture(s), this run made 0."]


def test_streams_are_joined():
    assert merge_streams([printed("a"), printed("b"), printed("c", "stderr"), printed("d")]) == [
        printed("ab"),
        printed("c", "stderr"),
        printed("d"),
    ]


def test_a_difference_is_said_in_one_line():
    assert first_difference([printed("x\nsum 0.1234")], [printed("x\nsum 0.1334")]) == "'sum 0.1234' -> 'sum 0.1334'"
    assert first_difference([printed("x")], [printed("x\ny")]) == "1 lines -> 2 lines"
    assert first_difference([shown(image_png="A")], [shown(image_png="A")]) == "a picture was drawn anew"
    long = first_difference([printed("a" * 100 + "b" + "c" * 100)], [printed("a" * 100 + "d" + "c" * 100)])
    assert len(long) < 150 and "b" in long and "d" in long and "..." in long
