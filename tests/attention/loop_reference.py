"""Attention once more, in float64 numpy and plain loops, forward and backward. Shares no code with course_lib."""

import cmath
import math

import numpy as np


def to_array(tensor) -> np.ndarray:
    """A tensor of any dtype as numpy; floating ones as float64."""
    tensor = tensor.detach().cpu()
    return tensor.double().numpy() if tensor.is_floating_point() else tensor.numpy()


def loop_attention(queries, keys, values, keep=None, grad_context=None, sink_logits=None):
    """Context and weights of (batch, head, token, width) arrays and, given the gradient of the context, theirs.

    Given sink_logits (head,), the denominator of softmax has one more term, and their gradient comes last.
    """
    batch, num_heads, query_len, head_dim = queries.shape
    num_kv_heads, key_len, value_dim = keys.shape[1], keys.shape[2], values.shape[3]
    full = (batch, num_heads, query_len, key_len)
    keep = np.ones(full, dtype=bool) if keep is None else np.broadcast_to(keep, full)
    weights = np.zeros(full)
    context = np.zeros((batch, num_heads, query_len, value_dim))
    grads = [np.zeros(array.shape) for array in (queries, keys, values)]
    grads += [] if sink_logits is None else [np.zeros(num_heads)]
    for b in range(batch):
        for h in range(num_heads):
            g = h // (num_heads // num_kv_heads)
            for q in range(query_len):
                seen = [k for k in range(key_len) if keep[b, h, q, k]]
                if not seen:
                    continue  # a row with nothing to see: weights, context and gradients of zero
                scores = [float(np.dot(queries[b, h, q], keys[b, g, k])) / math.sqrt(head_dim) for k in seen]
                powers = [math.exp(score - max(scores)) for score in scores]
                sink = 0.0 if sink_logits is None else math.exp(float(sink_logits[h]) - max(scores))
                for k, power in zip(seen, powers, strict=True):
                    weights[b, h, q, k] = power / (math.fsum(powers) + sink)
                    context[b, h, q] += weights[b, h, q, k] * values[b, g, k]
                if grad_context is not None:
                    row = grad_context[b, h, q]
                    by_key = {k: float(np.dot(row, values[b, g, k])) for k in seen}
                    mean = math.fsum(weights[b, h, q, k] * by_key[k] for k in seen)
                    if sink_logits is not None:
                        grads[3][h] -= sink / (math.fsum(powers) + sink) * mean
                    for k in seen:
                        by_score = weights[b, h, q, k] * (by_key[k] - mean) / math.sqrt(head_dim)
                        grads[0][b, h, q] += by_score * keys[b, g, k]
                        grads[1][b, g, k] += by_score * queries[b, h, q]
                        grads[2][b, g, k] += weights[b, h, q, k] * row
    return (context, weights) if grad_context is None else (context, weights, grads)


def loop_rotary(array, positions, theta=10000.0):
    """(batch, head, token, head_dim) turned by (token,) or (batch, token): each pair as one complex number."""
    half = array.shape[3] // 2
    turned = np.zeros(array.shape)
    positions = np.broadcast_to(positions, (array.shape[0], array.shape[2]))
    for b, h, t, i in np.ndindex(*array.shape[:3], half):
        angle = float(positions[b, t]) * theta ** (-2 * i / array.shape[3])
        pair = complex(array[b, h, t, i], array[b, h, t, i + half]) * cmath.exp(1j * angle)
        turned[b, h, t, i], turned[b, h, t, i + half] = pair.real, pair.imag
    return turned


def loop_module(x, state, num_heads, num_kv_heads, causal=True, keep=None, context=None, positions=None, theta=1e4):
    """Output and weights of a whole module from its projections: {"q_proj.weight": array, "q_proj.bias": ..., ...}.

    Keys and values are made from context, if it is given; queries and keys are turned, if positions are.
    """
    context = x if context is None else context
    projected = {}
    for name, source in (("q_proj", x), ("k_proj", context), ("v_proj", context)):
        projected[name] = np.einsum("btm,om->bto", source, state[f"{name}.weight"]) + state.get(f"{name}.bias", 0.0)
    queries = _cut(projected["q_proj"], num_heads)
    keys, values = _cut(projected["k_proj"], num_kv_heads), _cut(projected["v_proj"], num_kv_heads)
    if positions is not None:
        queries, keys = loop_rotary(queries, positions, theta), loop_rotary(keys, positions, theta)
    batch, num_tokens = x.shape[:2]
    allowed = np.ones((batch, num_heads, num_tokens, context.shape[1]), dtype=bool)
    if keep is not None:
        allowed &= np.broadcast_to(keep, allowed.shape)
    if causal:
        for q in range(num_tokens):
            allowed[:, :, q, q + 1 :] = False
    by_head, weights = loop_attention(queries, keys, values, allowed)
    output = np.concatenate([by_head[:, h] for h in range(num_heads)], axis=-1)
    if "out_proj.weight" in state:
        output = np.einsum("btm,om->bto", output, state["out_proj.weight"]) + state.get("out_proj.bias", 0.0)
    return output, weights


def _cut(array, parts):
    width = array.shape[-1] // parts
    return np.stack([array[..., part * width : (part + 1) * width] for part in range(parts)], axis=1)
