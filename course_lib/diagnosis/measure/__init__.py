"""Measure the code stage by stage; no module here knows the name of a mistake."""

from course_lib.calling import CACHE

from .attention import NO_WEIGHT, Attention
from .attention_sinks import TokenlessWeights, has_sink
from .calling import usual_call
from .context import JoinedCall, context_argument
from .copying import plain_lists, settings_in
from .dependence import SEVERAL, Dependence
from .grid import count_in_front, groups_of
from .logits import by_query_and_key, intended_logits
from .norm_scale import factor_after_norms
from .operation_names import BATCH_NORMS, LAYER_NORMS
from .options import MOST_TOKENS
from .other_paths import OtherPath, other_paths
from .precision import rounded_to
from .probes import influence, other_sizes
from .projections import column_sets
from .reach import find_leak
from .reference import Comparison, Difference, compare
from .roles import OUTPUT, role_of, unused_roles
from .rotary_angles import RotaryAngles, are_given, are_made_by_caller
from .rotated_rows import SAME, RotatedRow, rotated_rows
from .rows import WRITES, Row, Rows
from .run import Attempt, FailedRun, Run, RunWithoutTensor, UntraceableRun, noise_of
from .scalings import SCALINGS, number_of
from .scores import Scores
from .second_prompt import FreshRuns, SecondPrompt
from .softmax_path import EXPONENTIALS, MASKS, SOFTMAXES, SoftmaxPath
from .stages import NoStructure, Stages
from .structure import Structure
from .subject import Subject, SubjectFailed, asks_for_gpu
from .token_sums import find_channel_weights, find_distance, find_elementwise, find_pair_scores, find_token_sum
from .visibility import Visibility
from .waking import zero_weights
from .walked_scale import walked_scale
from .windows import other_window, unused_mask

__all__ = [
    "BATCH_NORMS", "CACHE", "EXPONENTIALS", "LAYER_NORMS", "MASKS", "MOST_TOKENS", "NO_WEIGHT", "OUTPUT", "SAME",
    "SCALINGS", "SEVERAL", "SOFTMAXES", "WRITES", "Attempt", "Attention", "Comparison", "Dependence", "Difference",
    "FailedRun", "FreshRuns", "JoinedCall", "NoStructure", "OtherPath", "RotaryAngles", "RotatedRow", "Row", "Rows",
    "Run", "RunWithoutTensor", "Scores", "SecondPrompt", "SoftmaxPath", "Stages", "Structure", "Subject",
    "SubjectFailed", "TokenlessWeights", "UntraceableRun", "Visibility", "are_given", "are_made_by_caller",
    "asks_for_gpu", "by_query_and_key", "column_sets", "compare", "context_argument", "count_in_front",
    "factor_after_norms", "find_channel_weights", "find_distance", "find_elementwise", "find_leak", "find_pair_scores",
    "find_token_sum", "groups_of", "has_sink", "influence", "intended_logits", "noise_of", "number_of", "other_paths",
    "other_sizes", "other_window", "plain_lists", "role_of", "rotated_rows", "rounded_to", "settings_in", "unused_mask",
    "unused_roles", "usual_call", "walked_scale", "zero_weights",
]  # fmt: skip
