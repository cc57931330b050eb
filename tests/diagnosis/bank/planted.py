"""Right pieces of the bank with one mistake each, which an operator plants.

The pieces were drawn without a look at what the doctor says of them: up to eight for each mistake.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import Any

from torch import Tensor

from course_lib.mutations import Mutation, Source, mutations, run_source

from .case import Case

# mistake: file:piece, and behind a # which of the places where the mistake can be made there, if not the first.
PLANTED = """
missing-scale: unusual:addmm_and_tensordot#2 other_kinds:biases_of_content_and_place
    known_designs:sdpa_float_mask_and_own_scale#1 caches_and_rotary:layer_norms_and_pairs_side_by_side
    near_mistakes:sound_mapped_over_heads_and_samples positions:ten_thousand_and_scaled
    paths:keys_first_and_their_transpose
wrong-scale: near_mistakes:two_by_two_rotations caches_and_rotary:batch_padded_on_the_left_while_decoding
    unusual:norm_before_the_projections known_designs:kv_cache_token_by_token
    other_kinds:keys_and_values_of_a_latent_split_in_another_order function_styles:f_keys_and_values_first
    paths:keys_first_and_their_transpose positions:layer_norm_of_heads_before_the_transpose
softmax-wrong-axis: unusual:core_without_parameters caches_and_rotary:latent_keys_and_one_turned_part_for_all
    positions:falls_to_both_sides known_designs:post_norm_bert_output near_mistakes:heads_folded_into_tokens
    other_kinds:changed_in_place_and_named_again packed_styles:r_additive_lowest_number
    paths:padding_and_future_together
double-softmax: caches_and_rotary:complex_rotary_and_a_start_position paths:keys_first_and_their_transpose
    unusual:single_head_with_context_length near_mistakes:heads_folded_into_tokens known_designs:annotated_transformer
    packed_styles:r_gated_with_silu function_styles:f_window_by_slices positions:rows_and_columns_of_an_image
no-softmax: near_mistakes:sound_a_running_sum_of_the_unit_matrix unusual:loop_over_tokens known_designs:rotary_half
    caches_and_rotary:index_copy_into_a_buffer function_styles:f_turned_grid_of_two_rows positions:falls_to_both_sides
    other_kinds:changed_in_place_and_named_again paths:keys_first_and_their_transpose
mask-off-by-one: unusual:torch_function_with_own_weights known_designs:annotated_transformer
    libraries:torch_tokens_first_with_weights caches_and_rotary:static_cache_with_rows_of_a_mask
    packed_styles:r_cache_object function_styles:m_with_weights_on_request near_mistakes:sound_a_pen_that_moves_by_one
    other_kinds:changed_in_place_and_named_again
mask-inverted: near_mistakes:slopes_for_distances unusual:documents_packed_in_one_row
    known_designs:pre_norm_with_residual caches_and_rotary:a_temperature_for_every_head
    packed_styles:r_sandwich_window function_styles:f_window paths:keys_first_and_their_transpose
    unusual:left_padding_with_empty_rows
mask-with-zero: near_mistakes:sound_a_running_sum_of_the_unit_matrix known_designs:keys_by_queries_softmax_over_rows
    unusual:grouped_by_einsum caches_and_rotary:a_sink_for_every_head packed_styles:r_sandwich_window
    function_styles:f_keys_and_values_first paths:padding_and_future_together known_designs:mqa_by_broadcast
mask-transposed: unusual:residual_inside known_designs:mqa_by_broadcast packed_styles:r_gated_with_silu
    near_mistakes:sound_mapped_over_heads_and_samples function_styles:f_keys_and_values_first
    caches_and_rotary:one_more_in_the_sum paths:keys_first_and_their_transpose unusual:core_without_parameters
mask-after-softmax: near_mistakes:sound_a_running_sum_of_the_unit_matrix known_designs:annotated_transformer
    unusual:single_head_with_projection caches_and_rotary:a_temperature_for_every_head
    function_styles:f_keys_and_values_first paths:padding_and_future_together packed_styles:r_gated_with_silu
    unusual:dropout_in_three_places
no-causal-mask: unusual:function_of_a_dict near_mistakes:sound_mapped_over_heads_and_samples paths:fused_by_a_switch
    caches_and_rotary:a_sink_for_every_head known_designs:sdpa_enable_gqa
    other_kinds:packed_in_the_order_of_its_local_name packed_styles:r_cache_object
    function_styles:f_keys_and_values_first
mask-discarded: known_designs:pre_norm_with_residual unusual:triple_inside_each_head
    packed_styles:r_additive_lowest_number near_mistakes:sound_an_axis_that_moved
    caches_and_rotary:a_temperature_for_every_head known_designs:upcast_softmax_cast_back
    unusual:list_of_heads_with_values_of_other_width caches_and_rotary:batch_padded_on_the_left_while_decoding
weights-transposed: known_designs:post_norm_bert_output positions:falls_to_both_sides unusual:core_without_parameters
    near_mistakes:time_runs_backwards other_kinds:changed_in_place_and_named_again
    caches_and_rotary:scores_capped_after_rotary paths:padding_and_future_together unusual:documents_packed_in_one_row
weights-not-applied: known_designs:neox_packed_per_head unusual:cosines_with_a_learned_temperature
    near_mistakes:sound_mapped_over_heads_and_samples positions:ten_thousand_and_scaled
    caches_and_rotary:every_two_turned paths:padding_and_future_together other_kinds:both_backwards
    known_designs:post_norm_bert_output
kv-heads-tiled: positions:capped_in_place_by_an_attribute caches_and_rotary:layer_norms_and_pairs_side_by_side
    near_mistakes:sound_masks_for_folded_lanes unusual:grouped_by_repeat_interleave
    known_designs:gqa_repeat_interleave#1 caches_and_rotary:norms_of_heads_before_they_are_turned#1
    near_mistakes:a_shift_that_changes_nothing caches_and_rotary:static_cache_with_rows_of_a_mask
merge-without-transpose: unusual:fused_kernel_with_causal_bias near_mistakes:rows_without_a_key_become_zero
    known_designs:sdpa_enable_gqa caches_and_rotary:torch_bias_for_the_lower_right
    function_styles:m_with_weights_on_request other_kinds:packed_as_it_is_called paths:gate_of_each_element
    packed_styles:r_sdpa_with_a_window_mask
split-without-transpose: known_designs:padding_and_causal unusual:exp_of_log_softmax
    caches_and_rotary:documents_that_each_begin_at_zero near_mistakes:sound_masks_for_folded_lanes
    known_designs:sdpa_float_mask_and_own_scale unusual:t5_decoder_buckets
    caches_and_rotary:static_slots_with_an_additive_mask#2 near_mistakes:a_shift_that_changes_nothing
heads-share-scores: known_designs:neox_packed_per_head packed_styles:r_additive_lowest_number
    other_kinds:both_backwards near_mistakes:values_and_way_out_in_one positions:rows_and_columns_of_an_image
    unusual:einsum_with_ellipsis caches_and_rotary:pages_of_two_tokens paths:padding_and_future_together
heads-averaged: caches_and_rotary:half_of_each_head_turned_in_pairs unusual:sliding_window
    near_mistakes:sound_masks_for_folded_lanes known_designs:rotary_half
    other_kinds:packed_weights_taken_apart_in_another_order packed_styles:r_sdpa_with_a_window_mask
    function_styles:m_with_weights_on_request paths:gate_of_each_element
dropout-at-eval: unusual:dropout_in_three_places packed_styles:r_nano_with_a_switch paths:fused_by_a_switch#1
    known_designs:sdpa_is_causal unusual:grouped_by_enable_gqa unusual:fused_kernel_is_causal
nan-on-hidden-rows: unusual:left_padding_a_sample_with_nan_to_num
scores-from-values: known_designs:padding_and_causal caches_and_rotary:buckets_of_distances_for_the_last_row
    unusual:where_with_lowest_number near_mistakes:sound_a_running_sum_of_the_unit_matrix
    positions:ten_thousand_and_scaled other_kinds:keys_and_values_of_a_latent_split_in_another_order
    unusual:grouped_by_expand known_designs:upcast_softmax_cast_back
projection-reused: unusual:a_cache_that_the_caller_moves known_designs:sdpa_bool_mask_three_axes
    other_kinds:memory_at_the_same_end positions:normalised_over_all_heads_together
    near_mistakes:heads_folded_into_tokens caches_and_rotary:layer_norms_and_pairs_side_by_side
    other_kinds:norm_of_the_keys_on_keys_and_values
output-projection-missing: unusual:rates_on_the_cpu_and_angles_moved caches_and_rotary:one_more_in_the_sum
    other_kinds:packed_in_the_order_of_its_local_name packed_styles:r_nano_with_a_switch known_designs:sliding_window
    unusual:encoder_with_key_padding caches_and_rotary:queries_grow_with_the_text
returns-none: known_designs:gqa_repeat_interleave unusual:grouped_by_enable_gqa
    near_mistakes:sound_a_letter_summed_away other_kinds:activation_that_stands_in_a_sequence_too
    packed_styles:r_alibi_in_a_buffer positions:cap_that_is_switched_off paths:low_rank_update_that_starts_at_zero
    caches_and_rotary:longer_texts_by_scaled_angles
device-pinned: unusual:subtract_a_billion known_designs:neox_packed_per_head#1 function_styles:f_steps_of_a_bias
    positions:queries_grow_as_keys_shrink paths:window_on_both_sides near_mistakes:tiles_of_queries_and_keys
    packed_styles:r_additive_lowest_number
"""


@dataclass(frozen=True)
class Planted(Case):
    """A right piece with a mistake at one of the places where it can be made."""

    piece: str
    at: int = 0

    @classmethod
    def of(cls, mistake: str, told: str) -> Planted:
        """Read "file:piece#at"."""
        piece, _, at = told.partition("#")
        return cls(mistake, lambda: cls.of(mistake, told).build(), piece, int(at or 0))

    @property
    def name(self) -> str:
        return f"{self.mistake}:{self.piece}"

    @cached_property
    def _module(self) -> ModuleType:
        return importlib.import_module(f"tests.diagnosis.bank.{self.piece.split(':')[0]}")

    @cached_property
    def _source(self) -> str:
        """The piece as it is written, without its decorator."""
        lines, _ = inspect.getsourcelines(getattr(self._module, self.piece.split(":")[1]))
        return "".join(lines[next(at for at, line in enumerate(lines) if line.startswith("def ")) :])

    @cached_property
    def _mutation(self) -> Mutation:
        return list(mutations(self._source, self.mistake))[self.at]

    @property
    def file(self) -> str:
        return f"{self.name.replace(':', '-')}.py"

    @property
    def lines(self) -> tuple[str, ...]:
        return (f"{self.file}:{self._mutation.line}",)

    def build(self) -> tuple[Callable[..., Any], Tensor, dict[str, Any]]:
        """Build the piece with the mistake."""
        source = Source(self._source).edited(self._mutation.edits)
        path = f"/planted/{self.file}"
        return run_source(source, path, dict(vars(self._module)))[self.piece.split(":")[1]]()


def _read(text: str) -> list[Planted]:
    found, mistake = [], ""
    for word in text.split():
        if word.endswith(":"):
            mistake = word[:-1]
        else:
            found.append(Planted.of(mistake, word))
    return found


CASES = _read(PLANTED)
