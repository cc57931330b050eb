"""A verdict leads on: what a wrong answer does is measured, or has a name, and what a right one lacks is a note."""

import pytest
import torch

from course_lib.exercises import ALL, NOT_PASSED, InputGenerator, LocalAnswer, Verdict
from course_lib.exercises.answering.calls import describe_module

from .written_answers import functions, run_cell

BY_HAND = "Compute one element by hand"
SAID = {
    "causal_mask(num_tokens, num_prompt=0)": [
        ("k = torch.ones(num_tokens, num_tokens).triu().bool(); k[:, :num_prompt] = True; return k", "mask-transposed"),
        ("k = torch.ones(num_tokens, num_tokens).triu(1).bool(); k[:, :num_prompt] = True; return k", "mask-inverted"),
        (
            "torch.where(torch.ones(num_tokens, num_tokens).tril(num_prompt) > 0, 0.0, -torch.inf)",
            "Which line decides the dtype",
        ),
    ],
    "two_heads(x, q_proj, k_proj, v_proj)": [
        (
            "a = [F.scaled_dot_product_attention(x @ q, x @ k, x @ v) for q, k, v in zip(q_proj, k_proj, v_proj)]; "
            "return torch.stack(a).reshape(len(x), -1)",
            "merge-without-transpose",
        )
    ],
    "mix_heads(contexts, w_o)": [
        ("torch.stack(contexts, 1).reshape(*contexts[0].shape[:2], -1) @ w_o.T", "merge-without-transpose"),
        ("torch.cat(contexts[:2], -1) @ w_o.T", "In this call `contexts` holds"),
        (
            "d = contexts[0].shape[-1]; return contexts[0] @ w_o[:, :d].T + contexts[1] @ w_o[:, d:2 * d].T",
            "does not depend on `contexts[2]`",
        ),
        ("torch.stack(contexts).reshape(*contexts[0].shape[:2], -1) @ w_o.T", "merge-without-transpose"),
        (
            "x = torch.cat(contexts, -1); return nn.Linear(x.shape[-1], len(w_o), bias=False, dtype=x.dtype)(x)",
            "Two calls with the same arguments gave two results.",
        ),
        (
            "torch.manual_seed(0); x = torch.cat(contexts, -1); "
            "return nn.Linear(x.shape[-1], len(w_o), bias=False, dtype=x.dtype)(x)",
            "does not depend on `w_o`",
        ),
    ],
    "explicit_intensity(num_tokens, num_heads, head_dim, bytes_per_number)": [
        (
            "moved = 4 * num_heads * num_tokens * head_dim + 4 * num_tokens ** 2; "
            "return 4 * num_heads * num_tokens ** 2 * head_dim / (moved * bytes_per_number)",
            "comes out if the factor `num_heads` is missing",
        )
    ],
    "scores_by_distance(query, key, num_distances, base)": [
        (
            "h = len(query) // 2; speeds = base ** (-torch.arange(h, dtype=query.dtype) / h); "
            "angles = torch.arange(num_distances, dtype=query.dtype)[:, None] * speeds; "
            "return angles.cos() @ (query[:h] * key[:h] + query[h:] * key[h:])",
            "comes out if in `rotate`, `sin` plays no part",
        )
    ],
    "with_temperature(scores, temperature)": [
        (
            "e = ((scores - scores.max()) / temperature).exp(); return e / e.sum(-1, keepdim=True)",
            "the largest score of the whole tensor is subtracted, not that of each row",
        )
    ],
    "last_real_output(outputs, lengths)": [
        ("outputs[torch.arange(len(outputs)), lengths.clamp(max=outputs.shape[1] - 1)]", "after the last real one")
    ],
    "greedy_decode(model, tokens, num_new)": [
        (
            "for _ in range(num_new): tokens = torch.cat([tokens, model(tokens)[:, -1].softmax(-1).multinomial(1)], 1)"
            "\nreturn tokens",
            "Two calls with the same arguments gave two results.",
        ),
        (
            "for _ in range(num_new): "
            "tokens = torch.cat([tokens, model(tokens)[:1, -1:].argmax(-1).expand(len(tokens), 1)], 1)"
            "\nreturn tokens",
            "right for sample 0 alone",
        ),
    ],
    "top_k_probabilities(scores, k)": [
        ("scores.masked_fill(scores < scores[0].topk(k).values[-1], -torch.inf).softmax(-1)", "is right for sample")
    ],
    "window_with_sinks(query_len, key_len, window, num_sinks)": [
        (
            "q = torch.arange(key_len - query_len, key_len)[:, None]; k = torch.arange(key_len); "
            "keep = (k <= q) & (k > q - window); keep[:, :num_sinks] = True; "
            "return keep & torch.ones(query_len, key_len).tril().bool()",
            "causal-top-left",
        )
    ],
    "leaks(code, x)": [
        (
            "x = x.clone().requires_grad_(); code(x).sum().backward(); "
            "return [t for t in range(x.shape[1]) if x.grad[:, t].abs().sum() > 0]",
            "on which any output depends",
        )
    ],
    "blocked_attention(queries, keys, values, block, causal)": [
        (
            "s = queries @ keys.T / queries.shape[1] ** 0.5; n = -(-len(keys) // block); "
            "s = s.masked_fill(torch.ones_like(s).triu(1).bool() & causal, -torch.inf); "
            "parts = [a.softmax(-1).nan_to_num() @ b for a, b in zip(s.split(block, 1), values.split(block))]; "
            "seen = torch.arange(len(keys)) // block + 1 if causal else torch.full((len(keys),), n); "
            "return sum(parts) / seen[:, None], n * (n + 1) // 2 if causal else n * n",
            "the mean of softmaxes",
        )
    ],
    "rotate_neighbours(x, cos, sin)": [
        (
            "o = x.clone(); o[..., ::2] = o[..., ::2] * cos - o[..., 1::2] * sin; "
            "o[..., 1::2] = o[..., 1::2] * cos + o[..., ::2] * sin; return o",
            "rotated already",
        ),
        (
            "a, b = x[..., ::2], x[..., 1::2]; cos, sin = cos[:, None], sin[:, None]\n"
            "return torch.stack([a * cos - b * sin, b * cos + a * sin], -1).flatten(-2)",
            "The axes of two tensors are lined up from the right",
        ),
    ],
    "next_token_loss(scores, tokens)": [
        ("F.cross_entropy(scores.flatten(0, 1), tokens.roll(-1, 1).flatten())", "predicts the first"),
        (
            "F.cross_entropy(scores[:, :-1].mT, tokens[:, 1:], reduction='sum') / len(scores)",
            "times the right one here",
        ),
        ("F.cross_entropy(scores[:, 1:-1].flatten(0, 1), tokens[:, 2:].flatten())", "which numbers go into the result"),
    ],
    "blend_with_mean(embeddings, share)": [
        ("(1 - share) * embeddings + share * embeddings.mean()", "is a single number")
    ],
    "causal_weights(scores)": [
        (
            "scores.masked_fill(torch.ones_like(scores[0]).triu(1).bool(), -1e300).softmax(-1)",
            "Which number is below every score, in every dtype?",
        )
    ],
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("signature", "body", "said"),
    [(signature, *one) for signature, answers in SAID.items() for one in answers],
)
def test_a_verdict_leads_on(signature, body, said):
    name = signature.split("(")[0]
    source = body if "\n" not in body else body.replace("\n", "\\\n")
    code = functions({signature: source})[name][0]
    for seed in (0, b"another"):
        verdict = ALL[name].judge(LocalAnswer(code), InputGenerator(seed))
        assert verdict.state == "not passed yet" and said in repr(verdict) and BY_HAND not in repr(verdict), verdict


def test_a_numpy_array_with_the_right_numbers_is_told_how_to_become_a_tensor():
    code = run_cell("def softmax_rows(scores):\n    return scores.softmax(-1).numpy()", "softmax_rows")
    verdict = repr(ALL["softmax_rows"].judge(LocalAnswer(code), InputGenerator(0)))
    assert "a NumPy array; it should be a tensor" in verdict and "Its elements are right." in verdict, verdict
    assert "`torch.from_numpy`" in verdict, verdict


NOTED = functions(
    {
        "softmax_rows(scores)": r"""
torch.tensor([[math.exp(s - max(r)) / sum(math.exp(o - max(r)) for o in r) for s in r] for r in scores.tolist()])
torch.from_numpy(np.exp(scores.numpy() - scores.logsumexp(1, keepdim=True).numpy()))
""",
        "split_heads(x, num_heads)": r"""
out = torch.zeros(x.shape[1], num_heads, x.shape[0], x.shape[2] // num_heads, dtype=x.dtype); \
[out[:, h, t].copy_(torch.from_numpy(x[t].numpy())[:, h * out.shape[3]:][:, :out.shape[3]]) \
 for h in range(num_heads) for t in range(len(x))]; return out
""",
    }
)


@pytest.mark.parametrize(("name", "code"), [(name, code) for name, answers in NOTED.items() for code in answers])
def test_right_numbers_without_gradients_pass_with_a_note(name, code):
    verdict = ALL[name].judge(LocalAnswer(code), InputGenerator(0))
    assert verdict.passed and "numbers are right, but" in repr(verdict), verdict


class AnswersAll(torch.Tensor):
    """A tensor whose operators give back whatever they like."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return 7


def test_a_tensor_of_a_class_of_its_own_is_compared_as_a_plain_one():
    right = LocalAnswer(lambda query, keys: (keys @ query).as_subclass(AnswersAll))
    assert ALL["scores_of_token"].judge(right, InputGenerator(0)).passed
    wrong = LocalAnswer(lambda query, keys: (keys @ query + 1).as_subclass(AnswersAll))
    assert ALL["scores_of_token"].judge(wrong, InputGenerator(0)).state == "not passed yet"


@pytest.mark.parametrize("patient", ["patient_a", "patient_b", "patient_c"])
def test_a_sentence_about_a_patient_is_not_answered_with_the_name(patient):
    right = ALL[patient].solution()
    words = right.split("-")
    for sentence in (f"the {' '.join(words)} mistake, I think", " and ".join([*words, "more"]), "something is wrong"):
        verdict = ALL[patient].judge(LocalAnswer(lambda said=sentence: said), InputGenerator(0))
        assert not verdict.passed and f" {right}" not in repr(verdict), verdict


HEAD = """class MyCausalHead(nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        self.q_proj = nn.Linear(d_in, d_out, bias=False)
        self.k_proj = nn.Linear(d_in, d_out, bias=False)
        self.v_proj = nn.Linear(d_in, d_out, bias=False)
        self.register_buffer("past", torch.ones(300, 300).tril().bool(), persistent=False)

    def forward(self, x):
        q, k, v = self.q_proj(x), self.k_proj(x), self.v_proj(x)
        n = x.shape[1]
        {}
"""
ON_ANY_DEVICE = [
    "s = q @ k.mT * q.shape[-1] ** -0.5; return s.masked_fill(~self.past[:n, :n], -torch.inf).softmax(-1) @ v",
    "return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)",
    "m = x.new_ones(n, n).triu(1) > 0; return (q @ k.mT * q.shape[-1] ** -0.5).masked_fill(m, -1e9).softmax(-1) @ v",
    "m = torch.ones(n, n).triu(1).bool().to(x.device); s = q @ k.mT / q.shape[-1] ** 0.5; s[:, m] = -torch.inf; "
    "return s.softmax(-1) @ v if x.abs().sum().item() >= 0 else x",
]
ON_THE_CPU = [
    "m = torch.ones(n, n).triu(1).bool(); "
    "return (q @ k.mT * q.shape[-1] ** -0.5).masked_fill(m, -torch.inf).softmax(-1) @ v",
    "s = q @ k.mT * q.shape[-1] ** -0.5 + torch.full((n, n), -torch.inf).triu(1); return s.softmax(-1) @ v",
]


@pytest.mark.parametrize("line", ON_ANY_DEVICE)
def test_a_head_that_works_on_any_device_passes(line):
    verdict = ALL["MyCausalHead"].judge(LocalAnswer(run_cell(HEAD.format(line), "MyCausalHead")), InputGenerator(0))
    assert verdict.passed, verdict


@pytest.mark.parametrize("line", ON_THE_CPU)
def test_a_mask_that_stays_on_the_cpu_is_found_without_a_gpu(line):
    verdict = ALL["MyCausalHead"].judge(LocalAnswer(run_cell(HEAD.format(line), "MyCausalHead")), InputGenerator(0))
    assert not verdict.passed and "two devices" in verdict.message and verdict.where, verdict
    assert "`device=x.device`" in repr(verdict) and "another device" in repr(verdict), verdict


@pytest.mark.parametrize("name", ["SingleHead", "MultiHead", "GroupedQuery", "CachedAttention", "MultiQueryWithCache"])
def test_a_module_whose_output_is_always_float64_does_not_pass(name):
    solution = ALL[name].solution

    class Pinned(solution):
        def forward(self, x, *rest):
            found = super().forward(x, *rest)
            return found.double() if isinstance(found, torch.Tensor) else (found[0].double(), found[1])

    verdict = ALL[name].judge(LocalAnswer(Pinned), InputGenerator(0))
    assert "float64; it should be float32" in verdict.message and "float32" in repr(verdict.evidence), verdict


def test_a_module_with_a_mask_of_float64_does_not_pass():
    line = "s = q @ k.mT * q.shape[-1] ** -0.5; return (s + torch.zeros(n, n, dtype=torch.float64, device=x.device)"
    line += ".masked_fill(~self.past[:n, :n], -torch.inf)).softmax(-1) @ v"
    verdict = ALL["MyCausalHead"].judge(LocalAnswer(run_cell(HEAD.format(line), "MyCausalHead")), InputGenerator(0))
    assert not verdict.passed and "Which dtype does each tensor on this line have?" in verdict.hint, verdict


@pytest.mark.parametrize(("of_mistake", "of_exercise"), [("07", "03"), ("02", "05"), (None, "05")])
def test_a_verdict_leads_to_no_lesson_after_that_of_its_exercise(of_mistake, of_exercise):
    verdict = Verdict(NOT_PASSED, "Odd.", lesson=of_mistake).of("an_exercise", of_exercise)
    assert verdict.lesson == min(of_mistake or of_exercise, of_exercise)


def test_a_parameter_with_two_names_is_described_once_and_its_second_name_is_said():
    heads = torch.nn.ModuleDict({"first": torch.nn.Linear(2, 3, bias=False)})
    heads["second"] = heads["first"]
    described = describe_module(heads)
    assert described["parameters"] == {"first.weight": (3, 2)}
    assert described["shared"] == {"second.weight": "first.weight"}
