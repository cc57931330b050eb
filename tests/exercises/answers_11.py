"""Answers to the exercises of lesson 11, right and wrong, as learners write them."""

import itertools

import torch


def absorb_by_loop(value_up, out_weight, num_heads):
    width = value_up.shape[0] // num_heads
    parts = []
    for head in range(num_heads):
        rows = slice(head * width, (head + 1) * width)
        parts.append(out_weight[:, rows] @ value_up[rows])
    return torch.cat(parts, dim=1)


def absorb_by_blocks(value_up, out_weight, num_heads):
    return out_weight @ torch.block_diag(*value_up.chunk(num_heads))


def absorb_by_einsum(value_up, out_weight, num_heads):
    by_head = value_up.view(num_heads, -1, value_up.shape[1])
    out = out_weight.view(len(out_weight), num_heads, -1)
    return torch.einsum("mhv,hvl->mhl", out, by_head).reshape(len(out), -1)


def slot_by_listing(position, block_table, block_size):
    slots = [range(block * block_size, (block + 1) * block_size) for block in block_table]
    return list(itertools.chain.from_iterable(slots))[position]


def taken_by_sets(prefix, lengths, block_size):
    taken = set()
    for sequence, length in enumerate(lengths):
        for position in range(length):
            block = position // block_size
            full = (block + 1) * block_size <= prefix
            taken.add((None if full else sequence, block))
    return len(taken)


def taken_by_ceil(prefix, lengths, block_size):
    full = (prefix - prefix % block_size) // block_size
    return full + sum((length - full * block_size + block_size - 1) // block_size for length in lengths)


def taken_by_walking(prefix, lengths, block_size):
    blocks = 0
    for sequence, length in enumerate(lengths):
        start = 0 if sequence == 0 else prefix - prefix % block_size
        blocks += len(range(start, length, block_size))
    return blocks


def gather_by_loop(memory, tables, lengths):
    longest = max(lengths)
    keys = torch.zeros(len(tables), longest, memory.shape[2], dtype=memory.dtype)
    keep = torch.zeros(len(tables), longest, dtype=torch.bool)
    for row, (table, length) in enumerate(zip(tables, lengths, strict=True)):
        keys[row, :length] = memory[table].flatten(0, 1)[:length]
        keep[row, :length] = True
    return keys, keep


def gather_padded(memory, tables, lengths):
    rows = [memory[table].flatten(0, 1)[:length] for table, length in zip(tables, lengths, strict=True)]
    keep = [torch.ones(length, dtype=torch.bool) for length in lengths]
    pad = torch.nn.utils.rnn.pad_sequence
    return pad(rows, batch_first=True), pad(keep, batch_first=True)


def gather_by_index(memory, tables, lengths):
    slots, longest = memory.shape[1], max(lengths)
    rows = torch.zeros(len(tables), longest, dtype=torch.long)
    for row, (table, length) in enumerate(zip(tables, lengths, strict=True)):
        at = torch.arange(length)
        rows[row, :length] = torch.tensor(table)[at // slots] * slots + at % slots
    keep = torch.stack([torch.arange(longest) < length for length in lengths])
    return memory.flatten(0, 1)[rows] * keep.unsqueeze(-1), keep


def gather_by_tables(memory, tables, lengths):
    slots = memory.shape[1]
    return gather_by_loop(memory, tables, [len(table) * slots for table in tables])


def apart_in_turns(pages, prompt, first, second):
    old = pages.start()
    [pages.append(old, token) for token in prompt]
    new = pages.fork(old)
    for one, other in itertools.zip_longest(first, second):
        if one is not None:
            pages.append(old, one)
        if other is not None:
            pages.append(new, other)
    return [pages.read(old) == [*prompt, *first], pages.read(new) == [*prompt, *second]]


def apart_by_both(pages, prompt, first, second):
    return all(apart_by_lists(pages, prompt, first, second))


def apart_by_lists(pages, prompt, first, second, early=False):
    sequences = [pages.start()]
    for token in prompt:
        pages.append(sequences[0], token)
    sequences.append(pages.fork(sequences[0]))
    read = {}
    for sequence, more in zip(sequences, (first, second), strict=True):
        for token in more:
            pages.append(sequence, token)
        read[sequence] = list(pages.read(sequence))
    if not early:
        read = {sequence: pages.read(sequence) for sequence in sequences}
    right = (prompt + first, prompt + second)
    return tuple(read[sequence] == one for sequence, one in zip(sequences, right, strict=True))


def apart_by_helper(pages, prompt, first, second):
    def write(sequence, tokens):
        for token in tokens:
            pages.append(sequence, token)

    write(old := pages.start(), prompt)
    new = pages.fork(old)
    write(old, first)
    write(new, second)
    return pages.read(old) == prompt + first, pages.read(new) == prompt + second


RIGHT = {
    "latent_cache_bytes": [
        lambda t, n, h, latent, rotary, size: (latent + rotary) * size * n * t,
        lambda t, n, h, latent, rotary, size: sum((latent + rotary) * t * size for _ in range(n)),
        lambda t, n, h, latent, rotary, size: torch.tensor(t * n * (latent + rotary) * size),
    ],
    "absorb_value_projection": [absorb_by_loop, absorb_by_blocks, absorb_by_einsum],
    "flat_slot": [
        slot_by_listing,
        lambda p, t, s: t[divmod(p, s)[0]] * s + divmod(p, s)[1],
        lambda p, t, s: p + (t[p // s] - p // s) * s,
    ],
    "blocks_taken": [taken_by_sets, taken_by_ceil, taken_by_walking],
    "mended_gather": [gather_by_loop, gather_padded, gather_by_index],
    "forks_apart": [apart_in_turns, apart_by_lists, apart_by_helper],
}

WRONG = {
    "absorb_value_projection": [
        (lambda v, o, h: absorb_by_loop(v.flip(0), o, h), "it should be"),
    ],
    "blocks_taken": [
        (lambda p, n, s: sum(-(-one // s) for one in n), "share nothing"),
        (lambda p, n, s: taken_by_ceil(p, n, s) * s, "slots"),
    ],
    "mended_gather": [
        (gather_by_tables, "be"),
        (lambda m, t, n: (gather_by_loop(m, t, n)[0], gather_by_loop(m, t, n)[1].float()), "bool"),
        (lambda m, t, n: gather_by_loop(m, [sorted(one) for one in t], n), "be"),
    ],
    "forks_apart": [
        (lambda *args: apart_by_lists(*args, early=True), "before the new one has gone on"),
        (apart_by_both, "be"),
        (lambda pages, p, a, b: (True, True), "be"),
    ],
}
