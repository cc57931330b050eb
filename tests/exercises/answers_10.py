"""Answers to the exercises of lesson 10, right and wrong, as learners write them."""

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
    x = x.clone().requires_grad_()
    for token in range(x.shape[1]):
        (gradient,) = torch.autograd.grad(code(x)[:, token].sum(), x)
        if gradient[:, token + 1 :].any():
            return True
    return False


def leaks_by_jacobian(code, x):
    slopes = torch.autograd.functional.jacobian(lambda x: code(x).sum((0, 2)), x)  # (token out, batch, token in, width)
    return bool(slopes.abs().sum((1, 3)).triu(1).any())


def leaks_by_noise(code, x):
    before, moved = code(x), False
    for token in range(1, x.shape[1]):
        changed = torch.cat([x[:, :token], torch.rand_like(x[:, token:])], 1)
        moved = moved or (code(changed) - before)[:, :token].abs().max() > 1e-9
    return moved


def leaks_in_place(code, x):
    before = code(x)
    x[:, -1] = 9.0
    return not torch.allclose(code(x)[:, :-1], before[:, :-1])


def change_last(code, x, rows=slice(0, -1)):
    changed = x.clone()
    changed[:, -1] = 9.0
    return not torch.allclose(code(changed)[:, rows], code(x)[:, rows])


def change_first(code, x):
    changed = x.clone()
    changed[:, 0] = 9.0
    return not torch.allclose(code(changed)[:, 1:], code(x)[:, 1:])


def gradients(module, x):
    module(x).pow(2).sum().backward()
    return dict(module.named_parameters())


def unused_by_loop(module, x):
    module.zero_grad()
    module(x).square().mean().backward()
    names = set()
    for name, parameter in module.named_parameters():
        if parameter.grad is None or parameter.grad.abs().sum() == 0:
            names.add(name)
    return names


def unused_by_grad(module, x):
    names, parameters = zip(*module.named_parameters(), strict=True)
    found = torch.autograd.grad(module(x).exp().sum(), parameters, allow_unused=True)
    return [name for name, grad in zip(names, found, strict=True) if grad is None or not grad.any()]


RIGHT = {
    "leaks": [leaks_by_gradient, leaks_by_jacobian, leaks_by_noise],
    "without_gradient": [
        unused_by_loop,
        unused_by_grad,
        lambda m, x: tuple(n for n, p in gradients(m, x).items() if p.grad is None or (p.grad == 0).all()),
    ],
    "patient_a": [lambda: "mask-discarded", lambda: "Mask_Discarded ", "mask discarded"],
    "patient_b": [lambda: "merge-without-transpose", lambda: "Merge without transpose", "merge-without-transpose"],
    "patient_c": [lambda: "kv-heads-tiled", lambda: "KV heads tiled", "kv_heads_tiled"],
    "MendedB": [FIVE.Split, FIVE.SplitByLoop, FIVE.SplitFused],
    "MendedC": [SIX.Grouped, SIX.GroupedFused, SIX.GroupedByEinsum],
}

WRONG = {
    "leaks": [
        (change_last, "changes the last token only"),
        (leaks_in_place, "input-modified"),
        (change_first, "changes the first token"),
        (lambda code, x: change_last(code, x, slice(None)), "own output, too"),
        (lambda code, x: False, "never finds anything"),
        (lambda code, x: True, "a leak everywhere"),
        (lambda code, x: not leaks_by_jacobian(code, x), "the opposite"),
        (lambda code, x: code(x, x), "stopped", "TypeError"),
        (lambda code, x: code(x) != x, "it should be a number such as"),
    ],
    "without_gradient": [
        (lambda m, x: [n for n, p in gradients(m, x).items() if p.grad is None], "teaches nothing, either"),
        (
            lambda m, x: [n for n, p in gradients(m, x).items() if p.grad is not None and p.grad.any()],
            "do get a gradient",
        ),
        (lambda m, x: [n for n, p in m.named_parameters() if p.grad is None], "all parameters"),
        (lambda m, x: [], "no parameter at all"),
        (lambda m, x: [n.split(".")[0] for n in unused_by_loop(m, x)], "of the submodules"),
        (lambda m, x: len(unused_by_loop(m, x)), "how many there are"),
        (lambda m, x: m(x).backward(), "stopped", "RuntimeError"),
    ],
    "patient_a": [
        (lambda: "no-causal-mask", "there is a mask, and a line that applies it"),
        (lambda: "mask-after-softmax", "row sums would be less than 1"),
        (lambda: "double-softmax", "It would show like this"),
        (lambda: "mask-thrown-away", "No mistake is called 'mask-thrown-away'"),
        (lambda: 3, "The answer is a int"),
        (lambda: "mask-with-zero", "where does its result go"),
    ],
    "patient_b": [
        (lambda: "no-causal-mask", "The leak comes after the mix"),
        (lambda: "split-without-transpose", "The way in is right"),
        (lambda: "mask-discarded", "what softmax gets"),
        (lambda: "heads-averaged", "in which rows"),
        (lambda: "wrong-scale", "It would show like this"),
        (lambda: "no-transpose", "No mistake is called 'no-transpose'"),
    ],
    "patient_c": [
        (lambda: "kv-head-zero-only", "Both kv heads are read"),
        (lambda: "heads-share-scores", "Which keys does it read"),
        (lambda: "merge-without-transpose", "The way out is right"),
        (lambda: "mask-inverted", "It would show like this"),
        (lambda: "tiled", "Names that are near: kv-heads-tiled"),
        (lambda: 1 / 0, "stopped", "ZeroDivisionError"),
    ],
    "MendedB": [
        (FIVE.JoinedByReshape, "merge-without-transpose"),
        (FIVE.CutByView, "split-without-transpose"),
        (FIVE.MaskDiscarded, "mask-discarded"),
        (FIVE.OutProjForgotten, "output-projection-missing"),
        (FIVE.ScoredWithValues, "scores-from-values"),
    ],
    "MendedC": [
        (SIX.Tiled, "kv-heads-tiled"),
        (SIX.FirstOnly, "kv-head-zero-only"),
        (SIX.NotCausal, "no-causal-mask"),
        (SIX.MaskedAfterwards, "mask-after-softmax"),
        (SIX.NothingBack, "returns-none"),
    ],
}
