"""Answers to the exercises of lesson 15, right and wrong, as learners write them."""

import importlib.util
from pathlib import Path

import torch


def _of(lesson):
    path = Path(__file__).with_name(f"answers_{lesson}.py")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


FIVE, SIX = _of("05"), _of("06")


def leaks_by_gradient(code, x):
    x, found = x.clone().requires_grad_(), []
    for token in range(x.shape[1]):
        (gradient,) = torch.autograd.grad(code(x)[:, token].square().sum(), x)
        if gradient[:, token + 1 :].any():
            found.append(token)
    return found


def leaks_by_jacobian(code, x):
    slopes = torch.autograd.functional.jacobian(lambda x: code(x).square().sum((0, 2)), x)  # (out, batch, in, width)
    return slopes.abs().sum((1, 3)).triu(1).any(1).nonzero().flatten()


def leaks_by_noise(code, x):
    before, moved = code(x), set()
    for token in range(1, x.shape[1]):
        changed = torch.cat([x[:, :token], torch.rand_like(x[:, token:])], 1)
        for at, distance in enumerate((code(changed) - before)[:, :token].abs().amax((0, 2)).tolist()):
            if distance > 1e-9:
                moved.add(at)
    return moved


def leaks_by_prefix(code, x):
    """Compare each output with that of the text which ends there."""
    full = code(x)
    return [t for t in range(x.shape[1]) if not torch.allclose(code(x[:, : t + 1])[:, t], full[:, t])]


def leaks_as_in_the_lesson(code, x):
    columns = []
    for t in range(x.shape[1]):
        changed = x.clone()
        changed[:, t] = 9.0
        columns.append((code(changed) - code(x)).abs().amax(dim=(0, 2)))
    return torch.stack(columns, dim=1).triu(1).amax(dim=1)


def gradients(module, x, token=slice(None)):
    module(x)[:, token].pow(2).sum().backward()
    return dict(module.named_parameters())


def unused_by_loop(module, x, token):
    module.zero_grad()
    module(x)[:, token].square().mean().backward()
    names = set()
    for name, parameter in module.named_parameters():
        if parameter.grad is None or parameter.grad.abs().sum() == 0:
            names.add(name)
    return names


def unused_by_grad(module, x, token):
    names, parameters = zip(*module.named_parameters(), strict=True)
    found = torch.autograd.grad(module(x)[:, token].exp().sum(), parameters, allow_unused=True)
    return [name for name, grad in zip(names, found, strict=True) if grad is None or not grad.any()]


class MaskedAfterwards(FIVE.Split):
    def weigh(self, scores):
        return scores.softmax(-1).tril()


RIGHT = {
    "leaks": [leaks_by_gradient, leaks_by_jacobian, leaks_by_noise, leaks_by_prefix],
    "without_gradient": [
        unused_by_loop,
        unused_by_grad,
        lambda m, x, t: tuple(n for n, p in gradients(m, x, t).items() if p.grad is None or (p.grad == 0).all()),
        lambda m, x, t: {n: 0.0 for n, p in gradients(m, x, t).items() if p.grad is None or p.grad.norm() == 0},
    ],
    "patient_a": [lambda: "dropout-at-eval", lambda: "Dropout_At_Eval ", "dropout at eval"],
    "patient_b": [lambda: "mask-after-softmax", lambda: "Mask after softmax", "mask-after-softmax"],
    "patient_c": [lambda: "softmax-wrong-axis", lambda: "Softmax wrong axis", "softmax_wrong_axis"],
    "MendedB": [FIVE.Split, FIVE.SplitByLoop, FIVE.SplitFused],
    "MendedC": [SIX.Grouped, SIX.GroupedFused, SIX.GroupedByEinsum],
}

WRONG = {
    "leaks": [
        (leaks_as_in_the_lesson, "Your function gives back"),
        (lambda code, x: code(x, x), "stopped", "TypeError"),
    ],
    "without_gradient": [
        (lambda m, x, t: m(x)[:, t].backward(), "stopped", "RuntimeError"),
        (
            lambda m, x, t: [n for n, p in gradients(m, x, t).items() if p.grad is None or p.grad.sum() == 0],
            "whose gradient adds up to zero",
        ),
    ],
    "patient_a": [
        (lambda: "no-causal-mask", "call the module twice"),
        (lambda: "projection-reused", "Follow the three names"),
        (lambda: "double-softmax", "weights = scores.masked_fill(hidden, -torch.inf).softmax(dim=-1)", "how often"),
        (lambda: "keys-ignored", "No mistake is called 'keys-ignored'", "Print the catalogue"),
        (lambda: 3, "The answer is of type int"),
        (lambda: "input-modified", "Which line of the code could do that"),
    ],
    "patient_b": [
        (lambda: "no-causal-mask", "nothing lies above the diagonal"),
        (lambda: "merge-without-transpose", "The way out is right"),
        (lambda: "mask-with-zero", "not the scores"),
        (lambda: "softmax-wrong-axis", "Softmax runs over the keys"),
        (lambda: "wrong-scale", "scores = queries * self.head_dim**-0.5 @ keys.transpose(2, 3)", "by which number"),
        (lambda: "late-mask", "No mistake is called 'late-mask'"),
    ],
    "patient_c": [
        (lambda: "kv-heads-tiled", "as they should"),
        (lambda: "mask-after-softmax", "the rows or the columns"),
        (lambda: "merge-without-transpose", "The way out is right"),
        (lambda: "mask-inverted", "hidden = torch.ones", "which elements of it are True"),
        (lambda: "softmax-axis", "Names that are near: softmax-wrong-axis"),
        (lambda: 1 / 0, "stopped", "ZeroDivisionError"),
    ],
    "MendedB": [
        (MaskedAfterwards, "mask-after-softmax"),
        (FIVE.JoinedByReshape, "merge-without-transpose"),
        (FIVE.CutByView, "split-without-transpose"),
        (FIVE.MaskDiscarded, "mask-discarded"),
        (FIVE.OutProjForgotten, "output-projection-missing"),
    ],
    "MendedC": SIX.WRONG["GroupedQuery"][:-1],  # the last stops at a line of its own
}
