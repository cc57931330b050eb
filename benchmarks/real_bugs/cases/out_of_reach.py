"""Published bugs that are named and not measured, with the reason."""

from benchmarks.real_bugs.case import Unmeasured

OLD_COPY = "the copy of the repository that was at hand is older than the fix"
UNMEASURED = (
    Unmeasured(
        id="book-inverted-mask",
        title="A mask of hidden keys is given to scaled_dot_product_attention, in a notebook",
        link="https://github.com/rasbt/LLMs-from-scratch/issues/1061",
        mistake="mask-inverted",
        why=OLD_COPY,
    ),
    Unmeasured(
        id="book-window-pointer",
        title="A prompt longer than the window moves the pointer of the cache below 0",
        link="https://github.com/rasbt/LLMs-from-scratch/pull/925",
        mistake="stale-cache",
        why="the fix is in the loop that generates text; the attention itself now refuses such a chunk",
    ),
    Unmeasured(
        id="scratch-merge",
        title="The heads are merged by a reshape alone",
        link="https://github.com/jsbaan/transformer-from-scratch/pull/6",
        mistake="merge-without-transpose",
        why=OLD_COPY,
    ),
    Unmeasured(
        id="tiny-llm-prefill",
        title="The causal mask is skipped in a prefill with a cache",
        link="https://github.com/Mikyx-1/TinyLLM/pull/18",
        mistake="no-causal-mask",
        why="no copy of the repository was at hand",
    ),
    Unmeasured(
        id="vggt-unfused",
        title="Unfused attention differs from fused",
        link="https://github.com/facebookresearch/vggt/pull/145",
        mistake="one path differs from the other",
        why="it is open, so there is no fixed code, and no copy of the repository was at hand",
    ),
    Unmeasured(
        id="x-transformers-left-padding",
        title="Queries in padding on the left see nothing, and fused attention gave them NaN",
        link="https://github.com/lucidrains/x-transformers/issues/187",
        mistake="nan-on-hidden-rows",
        why="PyTorch gives such rows 0 now: with version 2.13 both sides have equal outputs",
    ),
    Unmeasured(
        id="timm-nextvit-dropout",
        title="A module is given where the probability of dropout belongs",
        link="https://github.com/huggingface/pytorch-image-models/commit/935950cc11de3103912ab2f00756fa0ef012e178",
        mistake="an error in training",
        why="it raises in training only, and the doctor evaluates",
    ),
    Unmeasured(
        id="transformers-embedding-gemma-window",
        title="The window to both sides is off by one",
        link="https://github.com/huggingface/transformers/pull/40700",
        mistake="the window is off by one",
        why="not tried yet",
    ),
)
