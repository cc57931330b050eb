"""Each operator that makes attention wrong: one step of right attention, replaced."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .right import HEADS, Cached, Decoder, Encoder


class MZM(Decoder):
    """Zero the attention mask, keeping its shape."""

    def attend(self, queries: Tensor, keys: Tensor, values: Tensor, keep: Tensor) -> Tensor:
        mask = torch.zeros(keep.shape, dtype=queries.dtype, device=queries.device)
        return self.dropout(self.softmax(self.scores(queries, keys) + mask)) @ values


class MIM(Decoder):
    """Invert the mask, keeping its shape and dtype."""

    def attend(self, queries: Tensor, keys: Tensor, values: Tensor, keep: Tensor) -> Tensor:
        scores = self.scores(queries, keys).masked_fill(keep, torch.finfo(queries.dtype).min)
        return self.dropout(self.softmax(scores)) @ values


class MRM(Decoder):
    """Lay the mask along the other axis, which broadcasting allows."""

    def keep(self, tokens: int, device: torch.device) -> Tensor:
        return super().keep(tokens, device).transpose(0, 1)


class MCB(Decoder):
    """Unmask a fraction of the future keys: here the first 30 % are visible to every query."""

    def keep(self, tokens: int, device: torch.device) -> Tensor:
        visible = super().keep(tokens, device)
        visible[:, : max(1, round(0.3 * tokens))] = True
        return visible


class QZQ(Decoder):
    """Zero the weights of the query projection."""

    def __init__(self) -> None:
        super().__init__()
        nn.init.zeros_(self.q_proj.weight)


class QZK(Decoder):
    """Zero the weights of the key projection."""

    def __init__(self) -> None:
        super().__init__()
        nn.init.zeros_(self.k_proj.weight)


class QZV(Decoder):
    """Zero the weights of the value projection."""

    def __init__(self) -> None:
        super().__init__()
        nn.init.zeros_(self.v_proj.weight)


class QTH(Decoder):
    """Tie heads together: all compute what the first does."""

    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        queries, keys, values = (one[:, :1].expand(-1, HEADS, -1, -1) for one in super().project(x))
        return queries, keys, values


class QHD(Decoder):
    """Split the width into another number of heads."""

    num_heads = 2 * HEADS


class SDS(Decoder):
    """Drop the scale of the scores."""

    def scores(self, queries: Tensor, keys: Tensor) -> Tensor:
        return queries @ keys.transpose(-1, -2)


class SPD(Decoder):
    """Apply dropout to the scores, before softmax."""

    def softmax(self, scores: Tensor) -> Tensor:
        return F.softmax(self.dropout(scores), dim=-1)


class SUC(Decoder):
    """Compute the scores in half precision."""

    def scores(self, queries: Tensor, keys: Tensor) -> Tensor:
        return super().scores(queries.half(), keys.half()).to(queries.dtype)


class POE(Decoder):
    """Omit the positions."""

    def rotate(self, x: Tensor, positions: Tensor) -> Tensor:
        super().rotate(x, positions)
        return x


class PTL(Decoder):
    """Support fewer positions than there are tokens: the rest share the last one."""

    def positions(self, indices: Tensor) -> Tensor:
        return indices.clamp(max=2)


class KMD(Decoder):
    """Give the fused kernel a dropout of its own, which training's switch does not reach."""

    def attend(self, queries: Tensor, keys: Tensor, values: Tensor, keep: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(queries, keys, values, attn_mask=keep, dropout_p=0.3)


class KRP(Decoder):
    """Accumulate the kernel's products in half precision."""

    def attend(self, queries: Tensor, keys: Tensor, values: Tensor, keep: Tensor) -> Tensor:
        return super().attend(queries.half(), keys.half(), values.half(), keep).to(queries.dtype)


class VSH(Decoder):
    """Mask heads so that one effective head remains."""

    def merge(self, heads: Tensor) -> Tensor:
        only_first = torch.arange(HEADS, device=heads.device) == 0
        return super().merge(heads * only_first.view(-1, 1, 1))


class VEC(Encoder):
    """Apply a causal mask in an encoder."""

    def keep(self, tokens: int, device: torch.device) -> Tensor:
        return super().keep(tokens, device).tril()


class CST(Cached):
    """Serve the key and value of the step before instead of the new ones."""

    def update(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        keys, values = super().update(key, value)
        before = max(0, self.length - 2)
        keys, values = keys.clone(), values.clone()
        keys[:, :, -1], values[:, :, -1] = keys[:, :, before], values[:, :, before]
        return keys, values


class CDU(Cached):
    """Withhold the new key and value from the attention of this step."""

    def update(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        keys, values = super().update(key, value)
        seen = max(1, self.length - 1)
        return keys[:, :, :seen], values[:, :, :seen]


class COB(Cached):
    """Read the cache one place further than it was written."""

    def update(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        super().update(key, value)
        return self.kept_keys[:, :, 1 : self.length + 1], self.kept_values[:, :, 1 : self.length + 1]


class CTR(Cached):
    """Keep fewer places of the cache than there are tokens."""

    def update(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        keys, values = super().update(key, value)
        return keys[:, :, -3:], values[:, :, -3:]


class CLK(Cached):
    """Answer a request with what the cache holds of the request before."""

    def start(self, x: Tensor) -> None:
        if not hasattr(self, "length") or len(self.kept_keys) != len(x) or self.length + x.shape[1] > 32:
            super().start(x)
