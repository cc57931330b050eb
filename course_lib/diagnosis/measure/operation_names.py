"""The names of operations that make weights of scores, and of those that normalise."""

SOFTMAXES = ("_softmax", "_safe_softmax", "_log_softmax", "softmax", "log_softmax")
EXPONENTIALS = ("exp", "exp_", "exp2")
LAYER_NORMS = ("native_layer_norm", "_fused_rms_norm")  # over the width of a token
BATCH_NORMS = (  # over the samples, or with the statistics of many; an InstanceNorm is one over the tokens
    "native_batch_norm", "_native_batch_norm_legit", "_native_batch_norm_legit_no_training", "cudnn_batch_norm",
    "_batch_norm_no_update", "_batch_norm_with_update",
)  # fmt: skip
