"""Right attention by others: PyTorch's own module and, where transformers is installed, Llama's, GPT-2's and BERT's."""

import torch
from torch import nn

from .case import collector, some_x

try:
    import transformers
except ImportError:  # it belongs to the tests' packages, not to the course's
    transformers = None

CASES, case = collector()


@case(None)
def torch_batch_first():
    torch.manual_seed(0)
    return nn.MultiheadAttention(12, 3, batch_first=True), some_x(2, 5, 12), {"num_heads": 3}


@case(None)
def torch_tokens_first_with_weights():
    torch.manual_seed(1)

    def call(module, x):
        x = x.transpose(0, 1)
        hidden = torch.ones(len(x), len(x), dtype=torch.bool, device=x.device).triu(1)
        return module(x, x, x, attn_mask=hidden)[0].transpose(0, 1)

    return nn.MultiheadAttention(15, 5), some_x(2, 6, 15), {"num_heads": 5, "call": call}


@case(None)
def torch_without_a_mask():
    torch.manual_seed(2)
    module = nn.MultiheadAttention(14, 2, batch_first=True, bias=False)
    call = {"call": lambda m, x: m(x, x, x, need_weights=False)[0]}
    return module, some_x(3, 4, 14), {"num_heads": 2, "causal": False, **call}


if transformers is not None:

    def llama(kind):
        config = transformers.LlamaConfig(
            hidden_size=24, num_attention_heads=4, num_key_value_heads=2, head_dim=6, attn_implementation=kind
        )
        torch.manual_seed(3)
        attention = transformers.models.llama.modeling_llama.LlamaAttention(config, layer_idx=0)
        rotary = transformers.models.llama.modeling_llama.LlamaRotaryEmbedding(config)

        def call(module, x):
            places = torch.arange(x.shape[1], device=x.device)[None]
            mask = torch.full((x.shape[1],) * 2, torch.finfo(x.dtype).min, device=x.device, dtype=x.dtype).triu(1)
            return module(x, rotary.to(x.device)(x, places), attention_mask=mask[None, None])[0]

        return attention.eval(), some_x(2, 5, 24), {"num_heads": 4, "num_kv_heads": 2, "call": call}

    @case(None)
    def llama_eager():
        return llama("eager")

    @case(None)
    def llama_sdpa():
        return llama("sdpa")

    @case(None)
    def gpt2():
        config = transformers.GPT2Config(n_embd=20, n_head=4, n_positions=32, attn_implementation="eager")
        torch.manual_seed(4)
        attention = transformers.models.gpt2.modeling_gpt2.GPT2Attention(config, layer_idx=0)

        def call(module, x):
            mask = torch.full((x.shape[1],) * 2, torch.finfo(x.dtype).min, device=x.device, dtype=x.dtype).triu(1)
            return module(x, attention_mask=mask[None, None])[0]

        return attention.eval(), some_x(2, 6, 20), {"num_heads": 4, "call": call}

    @case(None)
    def bert():
        config = transformers.BertConfig(hidden_size=18, num_attention_heads=3, attn_implementation="eager")
        torch.manual_seed(5)
        attention = transformers.models.bert.modeling_bert.BertSelfAttention(config)
        options = {"num_heads": 3, "causal": False, "call": lambda m, x: m(x)[0]}
        return attention.eval(), some_x(2, 5, 18), options
