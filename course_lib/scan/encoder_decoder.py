"""Which argument of an encoder-decoder is its decoder's input, and which its encoder's."""

import re

from torch import nn

from course_lib.calling import parameters_of

OF_DECODER = re.compile(r"(^|_)(tgt|trg|target|targets|dec|decoder|y)(_|$)", re.I)
OF_CONTEXT = re.compile(r"context|(^|_)enc(_|$)|encoder|memory|cond|source|src|media|cross|kv", re.I)


def names_of_sides(module: nn.Module, *, pretrained: bool) -> tuple[str, str]:
    """Return the names of the arguments for x and for the context.

    Without a name that tells, x is the first argument and the context the second.

    Args:
        module: an encoder-decoder, or a module with cross-attention.
        pretrained: whether it follows the conventions of transformers.
    """
    if pretrained:
        return "decoder_input_ids", str(module.main_input_name)  # type: ignore[attr-defined]
    names = [parameter.name for parameter in parameters_of(module) if parameter.kind is parameter.POSITIONAL_OR_KEYWORD]
    if len(names) < 2:
        raise ValueError(f"{type(module).__name__} takes no context besides x: give no context, or say how with call.")
    of_decoder = next((name for name in names[:2] if OF_DECODER.search(name)), None)
    if of_decoder is not None:
        return of_decoder, next(name for name in names[:2] if name != of_decoder)
    context = next((name for name in names if OF_CONTEXT.search(name) and "mask" not in name), names[1])
    return next(name for name in names if name != context), context


def masks_of_sides(names: list[str]) -> tuple[list[str], list[str]]:
    """Divide the names of masks into those of the decoder's tokens and those of the context's.

    A name that tells of neither is the context's where another is the decoder's, as `attention_mask` in transformers.
    """
    of_decoder = [name for name in names if OF_DECODER.search(name)]
    of_context = [name for name in names if OF_CONTEXT.search(name) and name not in of_decoder]
    neutral = [name for name in names if name not in of_decoder and name not in of_context]
    return (of_decoder, [*neutral, *of_context]) if of_decoder else (neutral, of_context)
