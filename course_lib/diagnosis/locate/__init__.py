"""Find where the source code writes statements, attributes, masks and caches."""

from .arguments import locate_argument
from .attributes import (
    attributes_in_source,
    attributes_read,
    locate_attribute,
    locate_attribute_read,
    locate_shared_module,
    locate_softmax_layer,
)
from .caches import WRITES, find_join, locate_cut, locate_leftover, locate_returned, locate_write_index
from .callers import locate_request
from .changed_lines import Change
from .choices import branch_by_choice, scale_by_choice
from .constants import (
    locate_idle_scaling,
    locate_scaling,
    locate_skipped_scaling,
    locate_sum_of_products,
    locate_unused_scaling,
)
from .dead_stores import changes_nothing, dead_parts, dead_stores, dropped_results, named_parts, names_read
from .devices import is_on_given_device, move_given_devices, of_files_on
from .dtypes import locate_made, locate_pinned
from .masks import (
    locate_alignment,
    locate_combination,
    locate_fill,
    locate_held,
    locate_made_mask,
    locate_mask_buffer,
    locate_masking,
    locate_negation,
    locate_next_shown,
    locate_pattern,
    locate_skipped_mask,
    locate_unused_triangle,
    locate_window,
)
from .mentions import base_that_builds, unmentioned_parts
from .names import locate_passed, locate_rename, locate_renamed_role
from .rotations import locate_wrong_rotation
from .skipped import locate_skipped_step
from .sources import names_in, returns_in
from .statements import (
    lines_from_forward,
    locate_assignment,
    locate_discarded,
    locate_fixed_loop,
    locate_missing_return,
    locate_next_use,
    locate_read,
    locate_return,
    locate_return_after,
    locate_returned_argument,
    locate_unmixed_return,
    sets_new_name,
)
from .versions import differing_lines, locate_difference

__all__ = [
    "WRITES", "Change", "attributes_in_source", "attributes_read", "base_that_builds", "branch_by_choice",
    "changes_nothing", "dead_parts", "dead_stores", "differing_lines", "dropped_results", "find_join",
    "is_on_given_device", "lines_from_forward", "locate_alignment", "locate_argument", "locate_assignment",
    "locate_attribute", "locate_attribute_read", "locate_combination", "locate_cut", "locate_difference",
    "locate_discarded", "locate_fill", "locate_fixed_loop", "locate_held", "locate_idle_scaling", "locate_leftover",
    "locate_made", "locate_made_mask", "locate_mask_buffer", "locate_masking",
    "locate_missing_return", "locate_negation", "locate_next_shown", "locate_next_use", "locate_passed",
    "locate_pattern", "locate_pinned", "locate_read", "locate_rename", "locate_renamed_role", "locate_request",
    "locate_return", "locate_return_after", "locate_returned", "locate_returned_argument", "locate_scaling",
    "locate_shared_module", "locate_skipped_mask", "locate_skipped_scaling", "locate_skipped_step",
    "locate_softmax_layer", "locate_sum_of_products", "locate_unmixed_return", "locate_unused_scaling",
    "locate_unused_triangle", "locate_window", "locate_write_index", "locate_wrong_rotation", "move_given_devices",
    "named_parts", "names_in", "names_read", "of_files_on", "returns_in", "scale_by_choice", "sets_new_name",
    "unmentioned_parts",
]  # fmt: skip
