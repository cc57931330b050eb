"""Right and wrong answers to the blanks of lesson 13."""

import torch
import torch.nn.functional as F
from torch import nn

from course_lib.attention import attend, causal_keep
from course_lib.exercises import ALL
from course_lib.exercises.wrong_answers import EditedSolution


def next_by_loop(tokens):
    batch, num_tokens = tokens.shape
    found = torch.zeros(batch, num_tokens, num_tokens, dtype=torch.bool)
    for sample in range(batch):
        for query in range(num_tokens - 1):
            for key in range(query + 1):
                found[sample, query, key] = tokens[sample, key] == tokens[sample, query + 1]
    return found


def next_by_padding(tokens):
    following = F.pad(tokens[:, 1:], (0, 1), value=-1)
    return torch.tril(following.unsqueeze(2) == tokens.unsqueeze(1))


def next_by_rows(tokens):
    equal = tokens[:, 1:, None] == tokens[:, None]
    return F.pad(equal, (0, 0, 0, 1)).tril()


def weight_by_loop(weights, wanted):
    batch, _, num_tokens, _ = weights.shape
    sums = []
    for sample in range(batch):
        for query in range(num_tokens):
            if wanted[sample, query].any():
                sums.append(weights[sample, :, query, wanted[sample, query]].sum(-1))
    return torch.stack(sums).mean(0)


def weight_by_counts(weights, wanted):
    return (weights * wanted[:, None]).sum((0, 2, 3)) / wanted.any(-1).sum()


def weight_by_einsum(weights, wanted):
    counts = wanted.any(-1).sum()
    return torch.einsum("bhqk,bqk->h", weights, wanted.to(weights.dtype)) / counts


def mean_by_list(values, head):
    heads = [values[:, i] for i in range(values.shape[1])]
    heads[head] = heads[head].mean((0, 1), keepdim=True).expand_as(heads[head])
    return torch.stack(heads, 1)


def mean_by_where(values, head):
    chosen = torch.arange(values.shape[1]).view(1, -1, 1, 1) == head
    return torch.where(chosen, values.mean((0, 2), keepdim=True), values)


def mean_in_place(values, head):
    values[:, head] = values[:, head].mean((0, 1))
    return values


def patch_by_where(here, there, head):
    return torch.where(torch.arange(here.shape[1]).view(1, -1, 1, 1) == head, there, here)


def patch_by_cat(here, there, head):
    return torch.cat([here[:, :head], there[:, head : head + 1], here[:, head + 1 :]], 1)


def patch_in_place(here, there, head):
    here[:, head] = there[:, head]
    return here


def exchange_by_index(here, one, other):
    order = list(range(here.shape[2]))
    order[one], order[other] = order[other], order[one]
    return here[:, :, order]


def exchange_by_clones(here, one, other):
    exchanged = here.clone()
    exchanged[:, :, [one, other]] = here[:, :, [other, one]]
    return exchanged


def exchange_in_place(here, one, other):
    first = here[:, :, one].clone()
    here[:, :, one] = here[:, :, other]
    here[:, :, other] = first
    return here


class OpenByAttend(nn.Module):
    def __init__(self, d_in, d_out, num_heads, num_kv_heads):
        super().__init__()
        self.num_heads, self.num_kv_heads, self.edit = num_heads, num_kv_heads, None
        self.q_proj = nn.Linear(d_in, d_out, bias=False)
        self.k_proj = nn.Linear(d_in, d_out * num_kv_heads // num_heads, bias=False)
        self.v_proj = nn.Linear(d_in, d_out * num_kv_heads // num_heads, bias=False)
        self.out_proj = nn.Linear(d_out, d_out, bias=False)

    def forward(self, x):
        projected = (self.q_proj(x), self.k_proj(x), self.v_proj(x))
        counts = (self.num_heads, self.num_kv_heads, self.num_kv_heads)
        parts = [one.unflatten(2, (n, -1)).transpose(1, 2) for one, n in zip(projected, counts, strict=True)]
        parts = [one.repeat_interleave(self.num_heads // one.shape[1], 1) for one in parts]
        if self.edit is not None:
            parts = self.edit(*parts)
        context, _ = attend(*parts, causal_keep(x.shape[1], device=x.device))
        return self.out_proj(context.transpose(1, 2).flatten(2))


class OpenHeadByHead(OpenByAttend):
    def forward(self, x):
        shared = self.num_heads // self.num_kv_heads
        queries = torch.stack(self.q_proj(x).chunk(self.num_heads, 2), 1)
        keys, values = (
            torch.stack([one for one in made.chunk(self.num_kv_heads, 2) for _ in range(shared)], 1)
            for made in (self.k_proj(x), self.v_proj(x))
        )
        if self.edit:
            queries, keys, values = self.edit(queries, keys, values)
        heads = [
            attend(*(one[:, i : i + 1] for one in (queries, keys, values)), causal_keep(x.shape[1]))[0][:, 0]
            for i in range(self.num_heads)
        ]
        return self.out_proj(torch.cat(heads, 2))


def opened(edit):
    """The solution's class with an edit."""
    return EditedSolution(ALL["MyOpenAttention"].solution, edit).answer


CALL = "queries, keys, values = self.edit(queries, keys, values)"
UNCOPIED = (
    ".repeat_interleave(shared, dim=1) =>  && scores = => "
    "keys, values = (one.repeat_interleave(shared, 1) for one in (keys, values)); scores ="
)
TOKENS_FIRST = "queries, keys, values = (p.mT for p in self.edit(*(p.mT for p in (queries, keys, values))))"
EARLY = (
    "(queries * self.head_dim**-0.5) => queries && "
    "        if self.edit: =>         queries = queries * self.head_dim**-0.5\n        if self.edit:"
)
ONCE = f"{CALL}; self.edit = None"
HEADS_ALONE = (
    "edited = self.edit(queries, keys, values); keys, values = edited[1:]; "
    "queries = queries * (edited[0] / queries).mean((0, 2, 3))[:, None, None]"
)


RIGHT = {
    "holds_next_word": [next_by_loop, next_by_padding, next_by_rows],
    "mean_weight_on": [weight_by_loop, weight_by_counts, weight_by_einsum],
    "MyOpenAttention": [
        OpenByAttend,
        OpenHeadByHead,
        opened(EARLY),
    ],
    "replace_by_mean": [mean_by_list, mean_by_where],
    "patch": [patch_by_where, patch_by_cat],
    "exchange": [exchange_by_index, exchange_by_clones],
}

WRONG = {
    "holds_next_word": [
        (lambda t: (t[:, 1:, None] == t[:, None]).tril(), "has the shape"),
    ],
    "mean_weight_on": [
        (lambda w, m: torch.stack([h[h > 0].mean() for h in (w * m[:, None]).sum(-1).unbind(1)]), "a weight of 0"),
    ],
    "MyOpenAttention": [
        (opened(f"{CALL} => self.edit(queries, keys, values)"), "your output is what it was without"),
        (opened(f"{CALL} => _, _, values = self.edit(queries, keys, values)"), "`edit` changed the queries, and"),
        (opened(f"{CALL} => queries, _, values = self.edit(queries, keys, values)"), "`edit` changed the keys, and"),
        (opened(f"{CALL} => {HEADS_ALONE}"), "`edit` changed the queries, and your output isn't what these give"),
        (opened(f"{CALL} => {ONCE}"), "the second one doesn't"),
        (
            opened(f"{CALL} => {TOKENS_FIRST}"),
            "`edit` got queries of the shape (5, 4, 3, 7); it should be (5, 4, 7, 3)",
        ),
        (opened(UNCOPIED), "`edit` got keys of the shape (5, 2, 7, 3); it should be (5, 4, 7, 3)"),
        (
            opened("self.edit(queries, keys, values) => self.edit(queries=queries, keys=keys, values=values)"),
            "TypeError",
        ),
        (opened("-torch.inf => -1e4"), "fills with -10000"),
    ],
    "replace_by_mean": [(mean_in_place, "input-modified", "`values`")],
    "patch": [(patch_in_place, "input-modified", "`here`")],
    "exchange": [(exchange_in_place, "input-modified", "`here`"), (lambda h, a, b: h.clone(), "nothing was exchanged")],
}
