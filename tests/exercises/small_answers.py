"""Short answers, each a new function every time, as when a cell is run again."""


def right():
    """A right answer to scores_of_token."""
    return lambda query, keys: keys @ query


def unscaled():
    """An answer to scaled_scores that makes the mistake missing-scale."""
    return lambda queries, keys: queries @ keys.T


def reversed_order():
    """An answer to scores_of_token that is wrong in a way without a name."""
    return lambda query, keys: (keys @ query).flip(0)


def stub(*arguments):
    """What a sheet has before anything is written."""
    raise NotImplementedError
