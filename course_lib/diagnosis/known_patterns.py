"""Compute reference weights with one deliberate mistake each from the code's own scores."""

from dataclasses import replace

from course_lib.mutations import WRONG_STEPS

from .finding import Finding
from .measure.attention import Attention
from .measure.stages import Stages

# Reference weights that are made from scores and a mask alone: attention with one mistake in its weights.
REFERENCES = [wrong for wrong in WRONG_STEPS if wrong.mistakes and wrong.steps.keys() == {"weigh"}]
DIGITS = 7


def add_pattern_evidence(finding: Finding, stages: Stages) -> Finding:
    """Add to a finding's evidence which reference, if any, equals the code's weights to seven digits."""
    attention = stages.reach(Attention)
    references = [wrong for wrong in REFERENCES if finding.mistake in wrong.mistakes]
    if attention is None or not references or attention.scores.isnan().any():
        return finding
    scale, right = attention.fitted_scale, attention.structure.head_dim**-0.5
    # The scores may have been multiplied by nothing more, by the right factor, or by the factor that fits best.
    scales = [1.0, right, *([] if scale is None else [float(scale[0])])]
    for wrong in references:
        for factor in scales:
            weights = wrong.steps["weigh"](attention.scores * factor, attention.expected).nan_to_num()
            if float((weights - attention.weights).abs().max()) < 10.0**-DIGITS:
                seen = f"your weights equal those of {wrong.equals}, to {DIGITS} digits"
                return replace(finding, evidence=f"{finding.evidence}; {seen}")
    return finding
