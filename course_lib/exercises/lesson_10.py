"""Exercises to lesson 10: probes, and mistakes to be found and mended."""

from __future__ import annotations

from course_lib.attention import GroupedQueryAttention, MultiHeadAttention

from .exercise import Exercise
from .judges.gradients import WITHOUT_GRADIENT
from .judges.leaks import LEAKS
from .judges.patients import PATIENT_A, PATIENT_B, PATIENT_C
from .modules import ModuleJudge

LESSON_10 = (
    Exercise(
        "leaks",
        "10",
        "A probe for the future",
        3,
        8,
        LEAKS,
        (
            "Run the code twice: on x, and on a copy of x in which one token was changed.",
            "If token t was changed, the outputs of tokens 0 to t - 1 must stay as they were.",
            "Try every t. A leak from token 1 to token 0 can't be seen by changing the last token.",
        ),
    ),
    Exercise(
        "without_gradient",
        "10",
        "A probe for what is never used",
        3,
        6,
        WITHOUT_GRADIENT,
        (
            "`module(x).square().sum().backward()` sends a gradient to everything that the output depends on.",
            "`module.named_parameters()` gives names and parameters; `parameter.grad` is None where nothing arrived.",
            "A gradient can also be there and be zero: `parameter.grad.any()` says whether it is more than that.",
        ),
    ),
    Exercise(
        "patient_a",
        "10",
        "Find the mistake: patient A",
        2,
        5,
        PATIENT_A,
        (
            "Run `leaks` on it, from above. So what kind of mistake is it?",
            "Ask the recorder: `record(PatientA(7, 12, 3), torch.randn(2, 5, 7)).unused()`.",
            "Which methods of a tensor change it, and which return a new one? Look for the underscore.",
        ),
    ),
    Exercise(
        "patient_b",
        "10",
        "Find the mistake: patient B",
        3,
        6,
        PATIENT_B,
        (
            "`leaks` says True, but print the weights: they are causal. So where does the future come in?",
            "Write the shape beside each line of `forward`. Which two axes are joined in the end?",
            "Lesson 04 shows the way out of the heads; compare.",
        ),
    ),
    Exercise(
        "patient_c",
        "10",
        "Find the mistake: patient C",
        3,
        6,
        PATIENT_C,
        (
            "Nothing leaks and every parameter gets a gradient: neither probe sees it. Look at who reads which keys.",
            "With 6 heads and 2 kv heads, which kv head should query head 1 read? Which one does it read here?",
            "`repeat` and `repeat_interleave` give the same shape.",
        ),
    ),
    Exercise(
        "MendedB",
        "10",
        "Mend patient B",
        2,
        4,
        ModuleJudge(MultiHeadAttention, (7, 12, 3), num_heads=3),
        (
            "Copy the class and change one line.",
            "Before heads and head_dim are joined they must be neighbours.",
            "`context.transpose(1, 2).reshape(batch, num_tokens, -1)`.",
        ),
    ),
    Exercise(
        "MendedC",
        "10",
        "Mend patient C",
        2,
        4,
        ModuleJudge(GroupedQueryAttention, (7, 24, 6, 2), num_heads=6, num_kv_heads=2),
        (
            "Copy the class and change two lines.",
            "Consecutive query heads share a kv head.",
            "`repeat_interleave(share, dim=1)` for keys and values.",
        ),
    ),
)
