"""Lists, counts and ranges read like sentences."""

from course_lib.wording import counted, first_of, listed, sentence, span, stretches, without_addresses


def test_lists_counts_and_stretches():
    assert [listed("a"), listed("ab"), listed("abc"), listed([1, 2])] == ["a", "a and b", "a, b and c", "1 and 2"]
    assert listed([]) == ""
    assert first_of("abc", 3, 3) == "a, b, c" and first_of(range(9), 2, 1234) == "0, 1 and 1,232 more"
    assert counted(1, "head") == "1 head" and counted(4608, "slot") == "4,608 slots"
    assert stretches([0, 1, 2, 5, 7, 8]) == [(0, 2), (5, 5), (7, 8)] and stretches([]) == []
    assert span(2, 2) == "2" and span(0, 3) == "0 to 3"
    assert sentence("query head") == "Query head" and sentence("") == ""


def test_where_objects_lie_is_left_out():
    shown = "[<function f.<locals>.g at 0x7f3a90e1c0d0>, <K object at 0x000001F3A2B4C5D6>] at 0x10"
    assert without_addresses(shown) == "[<function f.<locals>.g>, <K object>] at 0x10"
