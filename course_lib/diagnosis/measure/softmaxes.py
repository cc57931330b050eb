"""The names of operations that make weights of scores."""

SOFTMAXES = ("_softmax", "_safe_softmax", "_log_softmax", "softmax", "log_softmax")
EXPONENTIALS = ("exp", "exp_", "exp2")
