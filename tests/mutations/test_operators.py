"""Each form that an operator knows is found where it is written out, and the code that comes out can be run."""

import ast

import pytest

from course_lib.mistakes import CATALOGUE
from course_lib.mutations import MADE, Source, mutations
from course_lib.mutations.operators import FORMS
from course_lib.mutations.pattern import VARIABLE, match

EXAMPLES = {
    "ROOT": "math.sqrt(d)",
    "LOW": 'float("-inf")',
    "LAST": "-1",
    "ONE": "1",
    "W": "s.softmax(-1)",
    "LAYER": "self.out",
    "DROP": "self.dropout",
}
ROWS = [(mistake, pattern) for mistake, forms in FORMS.items() for pattern, _ in forms]


def example(pattern):
    return VARIABLE.sub(lambda name: EXAMPLES.get(name[0], name[0].lower()), pattern)


@pytest.mark.parametrize(("mistake", "pattern"), ROWS)
def test_a_form_is_found_where_it_is_written_out(mistake, pattern):
    statement = " = " in pattern.split("(")[0] or pattern.startswith("return ")
    text = f"def forward(self):\n    {'' if statement else 'r = '}{example(pattern)}\n"
    found = list(mutations(text, mistake))
    assert found and found[0].line == 2
    after = Source(text).edited(found[0].edits)
    assert ast.dump(ast.parse(after)) != ast.dump(ast.parse(text))


def test_functions_methods_and_keywords_are_one_form():
    for text in (
        "x.softmax(-1)",
        "x.softmax(dim=-1)",
        "F.softmax(x, dim=-1)",
        "torch.softmax(x, -1)",
        "nn.functional.softmax(input=x, dim=-1)",
    ):
        assert match("softmax(X, dim=LAST)", ast.parse(text, mode="eval").body), text
    for text in ("x.softmax(1)", "x.log_softmax(-1)", "x.softmax(*dims)", "softmax"):
        assert match("softmax(X, dim=LAST)", ast.parse(text, mode="eval").body) is None, text


def test_what_replaces_an_operand_stays_whole():
    for text, without in (
        ("mix = (scores - bias).softmax(-1) @ values\n", "mix = (scores - bias) @ values\n"),
        ("weights = (scores - bias).softmax(-1)\n", "weights = scores - bias\n"),
    ):
        (found,) = mutations(text, "no-softmax")
        assert Source(text).edited(found.edits) == without


def test_a_name_in_a_pattern_stands_for_the_same_text_each_time():
    assert match("X + X", ast.parse("a + a", mode="eval").body) and not match(
        "X + X", ast.parse("a + b", mode="eval").body
    )


def test_only_the_lines_that_are_asked_for_change():
    text = "a = x.softmax(-1)\nb = y.softmax(-1)\n"
    assert [one.line for one in mutations(text, "no-softmax")] == [1, 2]
    assert [one.line for one in mutations(text, "no-softmax", within=(2, 2))] == [2]


def test_to_leave_out_the_last_dropout_is_no_mistake():
    assert not list(mutations("def forward(self):\n    return self.dropout(x)\n", "output-projection-missing"))


def test_operators_make_mistakes_of_the_catalogue():
    assert set(MADE) < set(CATALOGUE) and len(MADE) >= 26
