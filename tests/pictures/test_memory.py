"""Memory pictures: slots, cells and lines against the tensors' own addresses; the wrong view against a loop."""

import re
import xml.etree.ElementTree as ElementTree

import pytest
import torch

from course_lib.pictures import draw_wrong_view, memory_row
from course_lib.pictures.memory.visible_part import sample_corner
from course_lib.pictures.style import FAINT, HIGHLIGHT, PLAIN, darken, head_color

from .picture_checks import TYPE, VALUE, check_drawing

WORDS = ("Dream", "big", "and", "work", "for", "it")
LABELS = ("queries", ".view(1, 6, 2, 2)", ".transpose(1, 2)", ".contiguous()")


def layouts(batch=1, num_tokens=6, num_heads=2, head_dim=2):
    """The four tensors of a lesson: (batch, token, width), split, transposed, copied."""
    queries = torch.arange(batch * num_tokens * num_heads * head_dim).view(batch, num_tokens, -1)
    split = queries.view(batch, num_tokens, num_heads, head_dim)
    return queries, split, split.transpose(1, 2), split.transpose(1, 2).contiguous()


def toy(**options):
    return memory_row(
        *layouts(), **{"names": LABELS, "words": WORDS, "num_heads": 2, "highlight": (0, 3, 2), **options}
    )


def slots_by_address(tensor):
    """The slot of each cell in reading order, found by asking every cell for its address."""
    start, size = tensor.untyped_storage().data_ptr(), tensor.element_size()
    indices = torch.cartesian_prod(*(torch.arange(n) for n in tensor.shape)).view(-1, tensor.dim()).tolist()
    return [(tensor[tuple(index)].data_ptr() - start) // size for index in indices]


def drawn_lines(svg):
    """(x above, x below) of every thin line from a slot to a cell, panel by panel, as sets."""
    panels = []
    for panel in re.split(r">reading<", svg)[1:]:
        paths = "".join(re.findall(r'<path d="([^"]*)" fill="none"[^>]*stroke-width="1.4"', panel))
        ends = re.findall(r"M(\S+) (\d+)(?:V(\d+)|L(\S+) (\d+))", paths)
        panels.append([(float(x), float(to or x)) for x, _, _, to, _ in ends])
    return panels


def rows_of(drawing):
    """The texts of a drawing, line by line, from left to right."""
    lines = {}
    for left, top, right, bottom, text in drawing.text_boxes:
        baseline = top + (11 if abs(bottom - top - 13) < 0.01 else 0.8 * (bottom - top))  # a number, or a text
        lines.setdefault(round(baseline), []).append((left, right, text))
    return [[text for *_, text in sorted(line)] for _, line in sorted(lines.items())]


def row_after(drawing, name):
    """The texts beside each occurrence of a row's name."""
    return [row[row.index(name) + 1 :] for row in rows_of(drawing) if name in row]


# --- what is drawn ---


def test_slots_and_cells_hold_memory_and_reading_order(drawings):
    toy()
    by_slot = [str(n) for n in range(24)]
    by_head = [
        str(n) for head in (0, 1) for token in range(6) for n in (4 * token + 2 * head, 4 * token + 2 * head + 1)
    ]
    assert row_after(drawings[0], "memory") == [by_slot, by_slot, by_slot, by_head]
    assert row_after(drawings[0], "reading") == [by_slot, by_slot, by_head, by_head]


@pytest.mark.parametrize("highlight", [None, (0, 3, 2)])
def test_each_line_joins_a_cell_to_the_slot_at_its_address(highlight):
    for tensor, lines in zip(layouts(), drawn_lines(toy(highlight=highlight).svg), strict=True):
        expected = {(12 + 26 * slot, 12.0 + 26 * cell) for cell, slot in enumerate(slots_by_address(tensor))}
        assert len(lines) == 24 and set(lines) == expected


def test_heads_differ_in_colour_and_in_dashes():
    svg = toy(highlight=None).svg
    for head, dashes in ((0, ""), (1, ' stroke-dasharray="4 3"')):
        assert svg.count(f'stroke="{darken(head_color(head))}" stroke-width="1.4"{dashes}/>') == 4  # once a panel


def test_axes_are_named_by_what_changes_along_them(drawings):
    toy()
    rows = rows_of(drawings[0])
    assert rows.count(list(WORDS)) == 2  # (batch, token, width) and the outer axis of its view
    assert rows.count(["head 0", "head 1"] * 6) == 1
    assert rows.count(list(WORDS) * 2) == 2  # transposed, and its copy
    assert rows.count(["head 0", "head 1"]) == 3  # the same two's outer axis, and the legend


def test_without_heads_or_words_an_axis_is_its_index(drawings):
    picture = memory_row(*layouts()[1:3])
    assert PLAIN in picture.svg and head_color(0) not in picture.svg
    rows = rows_of(drawings[0])
    assert ["[0, 0]", "[0, 1]", "[0, 2]", "[0, 3]", "[0, 4]", "[0, 5]"] in rows
    assert ["[0, 0]", "[0, 1]"] in rows
    assert "slots to the next on axis 1: 2, on axis 2: 4, element: 1" in picture.description


def test_a_wrong_view_gets_no_names_it_does_not_deserve(drawings):
    queries = layouts()[0]
    picture = memory_row(queries, queries.view(1, 2, 6, 2), words=WORDS, num_heads=2)
    assert (
        "tensor 1, shape (1, 2, 6, 2)" in picture.description
        and "next on axis 1: 12, on axis 2: 2" in picture.description
    )
    assert ["[0, 0]", "[0, 1]"] in rows_of(drawings[0])  # neither "head 0" nor a word


def test_only_words_or_only_heads(drawings):
    by_words = memory_row(*layouts()[:2], words=WORDS)
    assert "next token: 4, on axis 2: 2, element: 1" in by_words.description and head_color(0) not in by_words.svg
    by_heads = memory_row(*layouts()[:2], num_heads=2, highlight=(0, 3, 2))
    assert "(token 3, head 1)" in by_heads.description
    assert [f"token {token}" for token in range(6)] in rows_of(drawings[1])


def test_a_first_tensor_cut_into_heads_has_them_as_an_axis(drawings):
    by_head = layouts()[3]
    picture = memory_row(by_head, by_head.transpose(1, 2), words=WORDS, num_heads=2, highlight=(0, 1, 3, 0))
    assert "Follow 14 (work, head 1), counting from 0: slot 18, read at position 18 in tensor 0" in picture.description
    assert "slot 18, read at position 14 in tensor 1" in picture.description
    assert "slots to the next token: 2, head: 12, element: 1" in picture.description
    assert list(WORDS) in rows_of(drawings[0])


def test_a_swapped_axis_changes_the_picture():
    queries, split, by_head, _ = layouts()
    right = memory_row(queries, by_head, words=WORDS, num_heads=2)
    planted = memory_row(queries, split.transpose(2, 3), words=WORDS, num_heads=2)
    assert right.svg != planted.svg and right.description != planted.description
    assert "next token: 4, element: 1" in planted.description or "next token: 4, on axis 2: 1" in planted.description


# --- highlight ---


def test_the_highlighted_element_is_outlined_in_its_slot_and_its_position(drawings):
    picture = toy()
    assert picture.svg.count("<rect") == 1 + 2 * 4  # the card; slot and cell in each panel
    assert picture.svg.count(f'stroke="{HIGHLIGHT}" stroke-width="2.5"') == 4
    assert picture.description.endswith(
        "Follow 14 (work, head 1), counting from 0: slot 14, read at position 14 in queries and .view(1, 6, 2, 2); "
        "slot 14, read at position 18 in .transpose(1, 2); slot 18, read at position 18 in .contiguous()."
    )
    assert row_after(drawings[0], "slot")[3].count("18") == 1


def test_a_number_may_be_read_often_or_not_at_all():
    keys = torch.arange(12).view(1, 1, 6, 2)
    words = memory_row(keys, keys.expand(1, 7, 6, 2), keys[:, :, :2], highlight=(0, 0, 3, 1)).description
    assert "slot 7, read at positions 7, 19, 31, 43 and 3 more in tensor 1; not read in tensor 2" in words


def test_a_negative_index_counts_from_the_end():
    assert "Follow 23 (it, head 1)" in toy(highlight=(0, -1, -1)).description


# --- memory ---


@pytest.mark.slow
def test_words_say_whose_memory_it_is():
    lines = toy(highlight=None).description.split("\n")
    assert lines[0] == "4 tensors, 2 rows of memory."
    assert lines[1] == (
        "queries, shape (1, 6, 4), stride (24, 4, 1): contiguous, memory of its own, holding 0, 1, 2, 3, 4, 5 "
        "and 18 more; read slot by slot; slots to the next token: 4, element: 1."
    )
    assert "contiguous, same memory as queries; read slot by slot" in lines[2]
    assert "not contiguous, same memory as queries; read as slots 0 to 1, 4 to 5, 8 to 9" in lines[3]
    assert "contiguous, memory of its own, holding 0, 1, 4, 5, 8, 9 and 18 more; read slot by slot" in lines[4]
    assert len(toy().description) < 1000


@pytest.mark.slow
def test_captions_are_true_of_the_tensors():
    queries, split, by_head, copy = layouts()
    straight = "No two lines cross: reading goes through memory from left to right."
    crossing = "Where lines cross, reading jumps to and fro in memory."
    assert memory_row(queries).caption == straight
    assert memory_row(queries, split).caption == f"{straight} No element moves: there is one row of memory."
    assert memory_row(split, by_head).caption == f"{crossing} No element moves: there is one row of memory."
    ordered = "tensor 1 has memory of its own, where the elements lie in the order in which tensor 0 reads them."
    assert memory_row(by_head, copy).caption == f"{crossing} {ordered}"
    assert memory_row(queries, copy).caption == f"{straight} tensor 1 has memory of its own."
    assert (
        memory_row(queries, queries + 1, copy).caption == f"{straight} tensor 1, tensor 2: each has memory of its own."
    )
    assert memory_row(queries[0, :, :1].expand(6, 2)).caption == "Where lines meet, several cells read one slot."
    both = "Where lines cross, reading jumps to and fro; where they meet, several cells read one slot."
    assert memory_row(queries[0, 0].expand(2, 4)).caption == both


@pytest.mark.slow
def test_titles():
    queries, _, by_head, _ = layouts()
    assert memory_row(queries).description.startswith("One row of memory, read from left to right.")
    assert memory_row(by_head).description.startswith("One row of memory, read in another order.")
    assert memory_row(torch.ones(1).expand(3)).description.startswith("One row of memory, read more than once.")
    assert memory_row(queries, by_head).description.startswith("2 tensors, one row of memory.")
    assert ">mine<" in memory_row(queries, title="mine").svg


def test_unread_slots_are_hollow_and_counted(drawings):
    queries = layouts()[0]
    picture = memory_row(queries, queries[:, 2:], queries[:, :, ::2], num_heads=2)
    assert (
        "tensor 1, shape (1, 4, 4), stride (24, 4, 1): contiguous, same memory as tensor 0, reads 16 of 24 slots; "
        in (picture.description)
    )
    assert (
        "read as slots 8 to 23" in picture.description
        and "read as slots 0, 2, 4, 6, 8, 10 and 6 more" in picture.description
    )
    light = memory_row(queries).svg.split("<style>@media")[0]
    assert FAINT in picture.svg.split("rx=", 2)[-1] and FAINT not in light.split(">reading<")[1]
    slots = [str(n) for n in range(24)]
    assert row_after(drawings[0], "memory") == [slots] * 3  # unread slots keep their numbers
    assert all(above == below for above, below in drawn_lines(picture.svg)[1])  # a slice hangs below its slots


def test_stride_0_reads_a_slot_often():
    keys = torch.arange(4).view(1, 2, 2)
    picture = memory_row(keys, keys.expand(3, 2, 2))
    assert "12 cells read 4 slots" in picture.description and "on axis 0: 0 (the same slot)" in picture.description
    above = [x for x, _ in drawn_lines(picture.svg)[1]]
    assert len(above) == 12 and {above.count(x) for x in above} == {3}
    assert "3 cells read 1 slot, holding 1;" in memory_row(torch.ones(1).expand(3)).description


def test_a_number_shared_by_heads_has_no_head():
    shared = torch.arange(3).view(3, 1).expand(3, 4)
    picture = memory_row(shared, num_heads=2, highlight=(1, 2))
    assert head_color(0) not in picture.svg and "Follow 1 (token 1), " in picture.description


def test_overlapping_windows():
    windows = torch.arange(6).unfold(0, 3, 1)  # rows 0 1 2, 1 2 3, ...
    lines = drawn_lines(memory_row(windows).svg)[0]
    assert lines == [(12 + 26 * slot, 12.0 + 26 * cell) for cell, slot in enumerate(slots_by_address(windows))]
    assert (
        "Follow 1, " in memory_row(windows, words=("a", "b", "c", "d"), highlight=(1, 0)).description
    )  # of no one row


def test_the_same_bits_read_as_another_dtype_are_other_numbers():
    numbers = torch.arange(4, dtype=torch.float32)
    words = memory_row(numbers.view(1, 4), numbers.view(torch.int32), highlight=(0, 1)).description
    assert "same memory as tensor 0" in words and "can't be followed in tensor 1" in words


# --- copies: the colour goes with the number ---


def fills(svg):
    """The colours of boxes in each panel."""
    return [set(re.findall(r'stroke="(#\w+)" stroke-width="24"', panel)) for panel in svg.split(">reading<")[1:]]


@pytest.mark.slow
def test_a_copy_keeps_its_colours_only_if_numbers_tell_themselves_apart():
    distinct = torch.linspace(-1, 1, 12).view(1, 3, 4)
    heads = {head_color(0), head_color(1)}
    assert fills(memory_row(distinct, distinct.flip(1), num_heads=2).svg) == [heads, heads]
    for other in (distinct + 0.01, torch.full((1, 3, 4), torch.nan), distinct.double()):
        assert fills(memory_row(distinct, other, num_heads=2).svg)[1] == {PLAIN}
    for alike in (torch.ones(1, 3, 4), torch.full((1, 3, 4), torch.nan), torch.ones(1, 3, 4, dtype=torch.bool)):
        picture = memory_row(alike, alike.clone(), num_heads=2, highlight=(0, 0, 0))
        assert fills(picture.svg) == [heads, {PLAIN}] and "can't be followed in tensor 1" in picture.description


def test_scrambled_colours_show_a_scrambled_order(drawings):
    queries = layouts()[0]
    scrambled = queries.view(1, 2, 6, 2).transpose(1, 2).reshape(1, 6, 4)  # joined without care
    memory_row(queries, scrambled, num_heads=2)
    svg = memory_row(scrambled, num_heads=2).svg
    assert svg != memory_row(queries, scrambled, num_heads=2).svg
    assert row_after(drawings[0], "memory")[1] == [str(n) for n in scrambled.flatten().tolist()]


# --- large tensors, in part ---


@pytest.mark.slow
def test_a_large_tensor_is_drawn_in_part_and_says_so(drawings):
    picture = memory_row(*layouts(1, 6, 12, 64), names=LABELS, words=WORDS, num_heads=12, highlight=(0, 3, 200))
    assert "In each, 18 of 4,608 slots and 18 of 4,608 cells drawn." in picture.description
    assert picture.svg.count("18 of 4,608 slots and 18 of 4,608 cells drawn") == 4
    reading = row_after(drawings[0], "reading")
    numbers = [text for text in reading[2] if text != "…"]
    # Heads 0, 1 and 3 of the tokens 0, 1 and 3: the highlighted element, 200, is column 8 of head 3.
    assert numbers == [str(768 * t + 64 * h + c) for h in (0, 1, 3) for t in (0, 1, 3) for c in (8, 9)]
    assert set(numbers) == {text for text in reading[0] if text != "…"}  # the same numbers everywhere
    assert "slot 2504, read at position 1352 in .transpose(1, 2)" in picture.description
    assert "0 to 63, 768 to 831" in picture.description


@pytest.mark.slow
def test_of_several_samples_the_one_with_the_highlight_is_drawn_whole(drawings):
    picture = memory_row(*layouts(2), names=LABELS, words=WORDS, num_heads=2, highlight=(1, 3, 2))
    assert row_after(drawings[0], "memory")[0] == ["…", *(str(n) for n in range(24, 48))]
    assert ["sample 1"] in rows_of(drawings[0])
    assert "slots to the next sample: 24, token: 4, head: 2, element: 1" in picture.description
    memory_row(*layouts(2))
    assert row_after(drawings[1], "reading")[0] == [*(str(n) for n in range(24)), "…"]


def test_parts_that_differ_are_said_each():
    keys = torch.arange(12).view(1, 1, 6, 2)
    words = memory_row(keys, keys.expand(1, 4, 6, 2), keys.expand(1, 4, 6, 2).contiguous()).description.split("\n")
    assert words[0] == "3 tensors, 2 rows of memory." and "drawn" not in words[1]
    assert words[2].endswith("; 24 of 48 cells drawn.") and words[3].endswith(
        "; 24 of 48 slots and 24 of 48 cells drawn."
    )


def test_a_number_that_comes_late_is_drawn_all_the_same(drawings):
    keys = torch.arange(6)
    memory_row(keys, keys.repeat_interleave(10), highlight=(5,))
    assert "5" in row_after(drawings[0], "reading")[1]


def test_other_large_cases(drawings):
    numbers = torch.arange(100)
    memory_row(numbers[:3], numbers[60:], numbers, torch.zeros(70), highlight=(1,))
    assert row_after(drawings[0], "reading")[1][:4] == ["60", "61", "62", "63"]  # a choice of its own
    assert row_after(drawings[0], "reading")[3][:2] == ["0", "0"]
    memory_row(numbers.view(4, 5, 5)[:, :2, :2], numbers)  # the second reads slots the first doesn't
    memory_row(numbers[::2])
    slots = row_after(drawings[2], "memory")[0]
    assert slots[:5] == ["0", "1", "2", "3", "4"]  # a lone slot between two is drawn, though unread
    memory_row(torch.tensor([123456, -123456] * 30))
    assert drawings[3].width <= 860


@pytest.mark.slow
def test_many_slices_of_one_memory_draw_their_own_slots(drawings):
    numbers = torch.arange(500)
    memory_row(*(numbers[start : start + 4] for start in range(0, 500, 10)))
    assert row_after(drawings[0], "memory")[7] == ["…", "70", "…"]
    assert len(row_after(drawings[0], "memory")) == 50 and drawings[0].width <= 860


def test_a_highlighted_element_outside_the_finest_tensor(drawings):
    numbers = torch.arange(60).view(60)
    memory_row(numbers, numbers[:48].view(2, 4, 6), highlight=(59,))
    assert "59" in row_after(drawings[0], "reading")[0]


def test_labels_above_slots_keep_clear(drawings):
    memory_row(torch.arange(2000)[1990:].view(2, 5), highlight=(0, 1))
    indices = row_after(drawings[0], "slot")[0]
    assert "1991" in indices and "1990" not in indices


@pytest.mark.parametrize(
    ("shape", "room", "cells"),
    [
        ((2, 3), 6, range(6)),
        ((9,), 4, [0, 1, 2, 3]),
        ((2, 6, 4), 24, range(24)),  # one whole sample
        ((2, 2, 3, 5), 30, range(30)),
        ((3, 3), 1, [0]),
        ((5, 7), 4, [0, 1, 7, 8]),
        ((), 1, [0]),
    ],
)
def test_a_corner_shows_every_axis(shape, room, cells):
    assert sample_corner(shape, room).tolist() == list(cells)


def test_a_corner_through_a_cell():
    assert sample_corner((5, 7), 4, through=3 * 7 + 5).tolist() == [5, 6, 26, 27]
    assert sample_corner((5, 7), 4, through=7 + 6).tolist() == [5, 6, 12, 13]  # never past the end of an axis


# --- numbers and names that fit ---


@pytest.mark.slow
def test_long_names_are_cut_in_the_drawing_and_whole_in_words(drawings):
    long = "a name that is longer than any sensible name of a tensor could ever be in a lesson on memory" * 2
    picture = memory_row(layouts()[0], layouts()[0], names=["q", long], words=[long] * 6, title=long)
    assert long in picture.description and long not in picture.svg
    assert drawings[0].width <= 860
    memory_row(torch.arange(6).view(6, 1), torch.arange(6).view(6, 1), words=WORDS)
    assert "big" in {text for row in rows_of(drawings[1]) for text in row}


@pytest.mark.parametrize(
    "tensor",
    [
        torch.tensor(5),
        torch.tensor([True, False]),
        torch.arange(3, dtype=torch.uint8),
        torch.ones(2, 3, dtype=torch.bfloat16),
        torch.ones(2, 3, dtype=torch.float16).requires_grad_(),
        torch.nn.Parameter(torch.ones(2, 2)),
    ],
)
def test_other_dtypes(tensor):
    assert "memory of its own" in memory_row(tensor, tensor.detach().clone()).description


def test_a_single_number_has_no_next():
    assert memory_row(torch.tensor(5)).description.endswith("holding 5; read slot by slot.")


# --- the wrong view ---


def rows_by_loop(tensor, num_heads):
    """For each row of the wrong view, head by head: which (head, token) it truly is, found number by number."""
    batch, num_tokens, width = tensor.shape
    head_dim = width // num_heads
    wrong = tensor.view(batch, num_heads, num_tokens, head_dim)[0]
    owners = {}
    for token in range(num_tokens):
        for column in range(width):
            owners[tensor[0, token, column].item()] = (column // head_dim, token)
    return [[{owners[n.item()] for n in row} for row in block] for block in wrong]


@pytest.mark.parametrize(
    ("batch", "num_tokens", "num_heads", "head_dim"),
    [(1, 6, 2, 2), (2, 4, 2, 3), (3, 5, 3, 2), (1, 2, 3, 1), (1, 3, 4, 7)],
)
def test_wrong_rows_are_marked_and_counted(batch, num_tokens, num_heads, head_dim, drawings):
    generator = torch.Generator().manual_seed(batch)
    tensor = torch.randperm(batch * num_tokens * num_heads * head_dim, generator=generator).view(batch, num_tokens, -1)
    picture = draw_wrong_view(tensor, num_heads=num_heads)
    owners = rows_by_loop(tensor, num_heads)
    assert all(len(row) == 1 for block in owners for row in block)
    texts = [text for *_, text in drawings[0].text_boxes]
    count = 0
    for head, block in enumerate(owners):
        seen = set()
        for token, row in enumerate(block):
            ((true_head, true_token),) = row
            seen.add(true_token)
            count += (true_head, true_token) != (head, token)
        unseen = [f"token {token}" for token in range(num_tokens) if token not in seen]
        sentence = f"Head {head} never sees {', '.join(unseen)}."
        assert (sentence in picture.description) == bool(unseen)
    rows = num_heads * num_tokens
    expected = sorted(
        f"✗ really: token {t}, head {h}"
        for head, block in enumerate(owners)
        for token, ((h, t),) in enumerate(block)
        if (h, t) != (head, token)
    )
    assert sorted(text for text in texts if text.startswith("✗ really")) == expected
    assert texts.count("✓") == 2 * rows - count  # rows that are right by luck, and all of the right way
    assert f"{count} of {rows} rows do not hold what their label says" in picture.description
    assert f"{count} of {rows} rows are not what their label says" in picture.caption
    assert f"all {rows} rows hold what their label says" in picture.description


def test_the_toy_case_in_words():
    assert draw_wrong_view(layouts()[0], num_heads=2, words=WORDS).description == (
        "A view alone scrambles the heads.\n"
        "Wrong, .view(1, 2, 6, 2): 10 of 12 rows do not hold what their label says. Head 0, big is really head 1, "
        "Dream. Head 0 never sees work, for, it. Head 1 never sees Dream, big, and.\n"
        "Right, .view(1, 6, 2, 2).transpose(1, 2): all 12 rows hold what their label says."
    )


def test_many_tokens_heads_and_numbers_are_drawn_in_part():
    picture = draw_wrong_view(
        torch.randn(2, 40, 5 * 9, generator=torch.Generator().manual_seed(0)), num_heads=5, title="mine"
    )
    part = "sample 0 of 2, the first 2 of 5 heads, the first 8 of 40 tokens, the first 6 of 9 elements of each row"
    assert f"mine. Drawn: {part}." in picture.description and f">Drawn: {part}.<" in picture.svg
    assert "and 26 more." in picture.description  # 32 of the 40 tokens are never seen by head 0
    assert len(picture.description) < 900


def test_a_tensor_that_is_not_contiguous_and_its_values(drawings):
    tensor = torch.arange(24).view(1, 4, 6).transpose(1, 2)  # (1, 6, 4)
    draw_wrong_view(tensor, num_heads=2)
    first_row = [text for row in rows_of(drawings[0]) if row[0] == "token 0" for text in row]
    assert first_row[:4] == ["token 0", "0", "6", "✓"]  # token 0 is the column 0, 6, 12, 18


# --- every picture ---

PICTURES = {
    "toy": toy,
    "plain": lambda: memory_row(*layouts()),
    "two": lambda: memory_row(*layouts()[2:], words=WORDS, num_heads=2, highlight=(0, 1, 3, 0)),
    "three wide": lambda: memory_row(*layouts(1, 4, 2, 3), num_heads=2, highlight=(0, 3, 2)),
    "samples": lambda: memory_row(*layouts(2), words=WORDS, num_heads=2, highlight=(1, 3, 2)),
    "12 heads": lambda: memory_row(*layouts(1, 6, 12, 64), words=WORDS, num_heads=12, highlight=(0, 3, 200)),
    "floats": lambda: memory_row(
        *(tensor / -23 for tensor in layouts()), words=WORDS, num_heads=2, highlight=(0, 5, 3)
    ),
    "wide": lambda: memory_row(torch.arange(24) * -4321, highlight=(7,)),
    "slices": lambda: memory_row(layouts()[0], layouts()[0][:, 1::2, 1], num_heads=2, highlight=(0, 1, 1)),
    "expand": lambda: memory_row(torch.arange(12).view(1, 1, 6, 2).expand(1, 4, 6, 2), words=WORDS),
    "long words": lambda: memory_row(*layouts(), words=[f"attention{n}" for n in range(6)], num_heads=2),
    "large": lambda: memory_row(torch.arange(100_000).view(100, 1000), torch.arange(100_000).view(100, 1000).T),
    "wrong": lambda: draw_wrong_view(layouts()[0], num_heads=2, words=WORDS),
    "wrong floats": lambda: draw_wrong_view(layouts(2, 5, 4, 3)[0] / -7, num_heads=4),
    "wrong large": lambda: draw_wrong_view(layouts(2, 40, 12, 64)[0], num_heads=12),
    "wrong long words": lambda: draw_wrong_view(
        layouts(1, 3, 3, 9)[0], num_heads=3, words=["attention is all you need"] * 3
    ),
}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", PICTURES)
def test_no_text_overlaps_and_none_is_cut(name, drawings):
    PICTURES[name]()
    drawing = drawings[0]
    check_drawing(drawing, widest=902)


@pytest.mark.one_in(8)
@pytest.mark.parametrize("name", PICTURES)
def test_the_same_bytes_and_a_valid_svg(name):
    first, second = PICTURES[name](), PICTURES[name]()
    assert first.svg == second.svg and repr(first) == repr(second)
    assert ElementTree.fromstring(first.svg).tag.endswith("svg")
    assert " id=" not in first.svg and len(first.svg) < 22_000


def test_toy_pictures_stay_small():
    queries, _, by_head, _ = layouts()
    picture = memory_row(queries, by_head, words=WORDS, num_heads=2, highlight=(0, 3, 2))
    assert len(picture.svg.split("<style>@media")[0]) < 9_500  # without the dark colours
    assert len(draw_wrong_view(queries, num_heads=2, words=WORDS).svg) < 9_000


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_the_same_picture_on_cuda():
    tensors = layouts()
    moved = tensors[0].cuda()
    split = moved.view(1, 6, 2, 2)
    on_cuda = (moved, split, split.transpose(1, 2), split.transpose(1, 2).contiguous())
    options = {"words": WORDS, "num_heads": 2, "highlight": (0, 3, 2)}
    assert memory_row(*on_cuda, **options).svg == memory_row(*tensors, **options).svg
    assert draw_wrong_view(moved, num_heads=2).svg == draw_wrong_view(tensors[0], num_heads=2).svg


# --- bad input ---

Q = torch.arange(24).view(1, 6, 4)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: memory_row(), VALUE, "got no tensor: give one or more"),
        (lambda: memory_row([1, 2]), TYPE, r"tensors\[0\] must be a tensor, got list"),
        (lambda: memory_row(Q, None), TYPE, r"tensors\[1\] must be a tensor, got NoneType"),
        (lambda: memory_row(torch.ones(2, dtype=torch.complex64)), TYPE, r"complex64: give its \.real or \.imag"),
        (lambda: memory_row(torch.ones(2).to_sparse()), VALUE, "no strides to draw .*sparse_coo.*dense tensor"),
        (lambda: memory_row(torch.ones(2, device="meta")), VALUE, "on the meta device and holds no numbers"),
        (lambda: memory_row(torch.ones(2, 0)), VALUE, r"has the shape \(2, 0\) and no element in it"),
        (lambda: memory_row(torch.ones(1).expand(10**10)), VALUE, "10,000,000,000 elements.*give a slice"),
        (lambda: memory_row(Q, names=["a", "b"]), VALUE, "names has 2 entries for 1 tensors"),
        (lambda: memory_row(Q, words=["a"]), VALUE, r"words has 1 labels for 6 tokens: give one per token"),
        (
            lambda: memory_row(Q[0, 0], words=["a"]),
            VALUE,
            r"words label axis -2 of the first tensor, which has the shape \(4,\)",
        ),
        (lambda: memory_row(Q, num_heads=3), VALUE, "num_heads=3 does not divide the width 4: give a divisor"),
        (lambda: memory_row(Q, num_heads=0), VALUE, "num_heads=0 does not divide"),
        (lambda: memory_row(torch.tensor(1), num_heads=1), VALUE, "num_heads=1 does not divide the width 0"),
        (lambda: memory_row(Q, num_heads=2.0), TYPE, r"heads must be an integer, got 2\.0"),
        (lambda: memory_row(Q, num_heads=True), TYPE, "heads must be an integer, got True"),
        (lambda: memory_row(Q[None], num_heads=2), VALUE, r"num_heads=2 is not the head axis.*give num_heads=1, or"),
        (lambda: memory_row(Q[None], num_heads=1.0), TYPE, r"heads must be an integer, got 1\.0"),
        (
            lambda: memory_row(Q, highlight=3),
            TYPE,
            "highlight must be a tuple of integers, one per axis of the first tensor, got 3",
        ),
        (
            lambda: memory_row(Q, highlight=(0, 1)),
            VALUE,
            r"highlight=\(0, 1\) is not an index of the first tensor, \(1, 6, 4\)",
        ),
        (lambda: memory_row(Q, highlight=(0, 6, 0)), VALUE, r"highlight=\(0, 6, 0\) is not an index"),
        (lambda: draw_wrong_view([1], num_heads=2), TYPE, "tensor must be a tensor, got list"),
        (
            lambda: draw_wrong_view(Q[0], num_heads=2),
            VALUE,
            r"tensor must be \(batch, token, width\), got the shape \(6, 4\)",
        ),
        (lambda: draw_wrong_view(Q, num_heads=3), VALUE, "num_heads=3 does not divide the width 4: give a divisor"),
        (lambda: draw_wrong_view(Q, num_heads=-1), VALUE, "num_heads=-1 does not divide"),
        (lambda: draw_wrong_view(Q, num_heads=2.0), TYPE, r"num_heads must be an integer, got 2\.0"),
        (lambda: draw_wrong_view(Q, num_heads=True), TYPE, "num_heads must be an integer, got True"),
        (
            lambda: draw_wrong_view(Q, num_heads=1),
            VALUE,
            "num_heads=1: both ways give the same, there is nothing to scramble",
        ),
        (
            lambda: draw_wrong_view(Q[:, :1], num_heads=2),
            VALUE,
            r"one token, its shape is \(1, 1, 4\): .*nothing to scramble",
        ),
        (
            lambda: draw_wrong_view(Q, num_heads=2, words=["a"]),
            VALUE,
            "words has 1 labels for 6 tokens: give one per token",
        ),
    ],
)
def test_bad_input_is_refused_in_words(call, error, words):
    with pytest.raises(error, match=words):
        call()
