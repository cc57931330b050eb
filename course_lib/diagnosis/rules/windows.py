"""A window can be judged only where more tokens than it holds are traced."""

from collections.abc import Iterator

from course_lib.diagnosis.finding import Finding, Kind
from course_lib.diagnosis.measure import MOST_TOKENS, Attention
from course_lib.diagnosis.registry import rule


@rule()
def check_window_is_shown(attention: Attention) -> Iterator[Finding]:
    """Whether the window is smaller than the number of tokens."""
    options, num_tokens = attention.options, attention.seen.shape[-1]
    if options.window is None or options.num_context or num_tokens > options.window:
        return
    if options.fixed_tokens:
        reason = "and `keep` or `lengths` allows no others: give an x with more"
    elif not options.fewest_tokens:
        reason = f"and at most {MOST_TOKENS} are traced: examine the code with a window of at most {MOST_TOKENS - 2}"
    else:
        reason = "because the code takes no more: examine it with a smaller window"
    evidence = f"window={options.window} was given, and {num_tokens} tokens were traced, {reason}"
    yield Finding.unseen(Kind.UNSEEN_WINDOW, evidence)
