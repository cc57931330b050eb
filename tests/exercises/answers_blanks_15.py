"""Answers to the blanks of lesson 15, right and wrong, as learners write them."""

import torch


def future_by_gradient(code, x, token):
    x = x.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(code(x)[:, :token].square().sum(), x)
    return bool(gradient[:, token].any())


def future_by_loop(code, x, token):
    other = x.clone()
    other[:, token] = other[:, token] - 1
    before, after = code(x), code(other)
    return any(not torch.equal(after[:, at], before[:, at]) for at in range(token))


def moved(code, x, token):
    changed = x.clone()
    changed[:, token] += 1.0
    return (code(changed) - code(x)).abs() > 1e-9


def steps(code, x, size):
    cache, outputs = {}, []
    for start in range(0, x.shape[1], size):
        outputs.append(code(x[:, start : start + size], cache))
    return torch.cat(outputs, 1)


def cache_by_piece(code, x, size):
    whole, cache, largest, start = code(x, {}), {}, 0.0, 0
    for piece in torch.split(x, size, 1):
        end = start + piece.shape[1]
        largest = max(largest, (code(piece, cache) - whole[:, start:end]).abs().max().item())
        start = end
    return largest


RIGHT = {
    "future_probe": [future_by_gradient, future_by_loop, lambda c, x, t: moved(c, x, t)[:, :t].any()],
    "cache_probe": [
        cache_by_piece,
        lambda c, x, s: torch.dist(steps(c, x, s), c(x, {}), torch.inf),
        lambda c, x, s: (steps(c, x, s) - c(x, {})).abs().amax(dim=(0, 1, 2)),
    ],
}


def future_as_number(code, x, token):
    other = x.clone()
    other[:, token] += 1.0
    return (code(other) - code(x))[:, :token].abs().max()


def future_of_samples(code, x, token):
    other = x.clone()
    other[:, token] += 1.0
    return not torch.allclose(code(other)[:token], code(x)[:token])


WRONG = {
    "future_probe": [
        (lambda c, x, t: moved(c, x, t)[:, :t], "it should be"),
        (future_as_number, "gives back a float; it should be True or False"),
        (future_of_samples, "True wherever it is called"),
    ],
}
