"""All paths, in the order in which a scan runs them."""

from .cached import in_chunks, padded_and_cached, token_by_token
from .compiled import compiled
from .inside import attention
from .masked import mask_that_hides_nothing, padded_left, padded_right
from .precision import bfloat16, float32
from .whole_input import (
    fused,
    one_pass,
    one_sample,
    three_samples,
    train_without_dropout,
    weights_returned,
    written_out,
)

PATHS = (
    one_pass, written_out, fused, weights_returned, mask_that_hides_nothing, padded_right, padded_left, in_chunks,
    token_by_token, padded_and_cached, train_without_dropout, one_sample, three_samples, float32, bfloat16, attention,
)  # fmt: skip
ASKED = (compiled,)  # run only if `paths` names them
