"""All paths, in the order in which a scan runs them."""

from .attentions import attention
from .caches import in_chunks, padded_and_cached, token_by_token
from .context import context_padded, context_read
from .masks import mask_that_hides_nothing, padded_left, padded_right
from .whole_input import (
    bfloat16,
    compiled,
    flex,
    float32,
    fused,
    one_pass,
    one_sample,
    three_samples,
    train_without_dropout,
    weights_returned,
    written_out,
)

PATHS = (
    one_pass, written_out, fused, flex, weights_returned, mask_that_hides_nothing, padded_right, padded_left,
    context_read, context_padded, in_chunks, token_by_token, padded_and_cached, train_without_dropout, one_sample,
    three_samples, float32, bfloat16, attention,
)  # fmt: skip
OF_CONTEXT = (context_read, context_padded)  # of models that are given a context
IN_A_DTYPE = (float32, bfloat16, attention)  # whatever the dtype of the plain pass
ON_REQUEST = (compiled,)  # takes seconds: run only if `paths` names them
