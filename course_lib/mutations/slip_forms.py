"""What goes wrong in one place of any function, in words: forms of code, and what becomes of them."""

import ast
from collections.abc import Mapping

# A form and what stands in its place (Z is the whole), the words, and the mistake; {axis} is the name of axis D of X.
Row = tuple[str, str, str, str | None]
MASKS: tuple[Row, ...] = (
    ("masked_fill(X, A, B)", "X", "the mask is missing", None),
    ("masked_fill(X, ~A, B)", "X.masked_fill(A, B)", "the mask is inverted", "mask-inverted"),
    ("masked_fill(X, A, B)", "X.masked_fill(~(A), B)", "the mask is inverted", "mask-inverted"),
    ("masked_fill(X, A, LOW)", "X.masked_fill(A, 0.0)", "hidden scores are 0", "mask-with-zero"),
    (
        "masked_fill(X, A, LOW)",
        "X.masked_fill(A, -20.0)",
        "hidden scores get a number that isn't below all others",
        None,
    ),
    ("masked_fill(X, A, LOW)", "X.masked_fill(A, -1e9)", "hidden scores get -1e9, not -inf", None),
    ("masked_fill(X, A, LOW)", "X - 1e9 * (A)", "1e9 is taken from hidden scores, which are still in them", None),
    ("masked_fill(X, A, B)", "X.masked_fill((A).mT, B)", "the mask has queries and keys exchanged", "mask-transposed"),
    (
        *("softmax(masked_fill(X, A, LOW), dim=D)", "X.softmax(D).masked_fill(A, 0.0)"),
        *("the mask comes after softmax", "mask-after-softmax"),
    ),
    ("tril(X)", "X.tril(1)", "the triangle's diagonal is one too far to the right", "mask-off-by-one"),
    ("tril(X)", "X.tril(-1)", "the triangle leaves its diagonal out", "mask-off-by-one"),
    ("tril(X)", "X.triu()", "the triangle is the upper one", "mask-transposed"),
    (
        "tril(X, diagonal=N)",
        "X.tril((N) + 1)",
        "the triangle's diagonal is one too far to the right",
        "mask-off-by-one",
    ),
    ("tril(X, diagonal=N)", "X.tril((N) - 1)", "the triangle's diagonal is one too far to the left", "mask-off-by-one"),
    ("tril(X, diagonal=N)", "X.triu(N)", "the triangle is the upper one", "mask-inverted"),
    ("tril(X, diagonal=N)", "X.tril()", "the diagonal begins in the upper left corner", "causal-top-left"),
    (
        "triu(X, diagonal=N)",
        "X.triu((N) + 1)",
        "the triangle's diagonal is one too far to the right",
        "mask-off-by-one",
    ),
    ("triu(X, diagonal=N)", "X.triu((N) - 1)", "the triangle's diagonal is one too far to the left", "mask-off-by-one"),
    ("triu(X, diagonal=N)", "X.tril(-(N))", "the triangle is the lower one", "mask-transposed"),
)
LARGEST = "(X - X.max()).exp() / (X - X.max()).exp().sum(D, keepdim=True)"
CAUSAL = "X.masked_fill(torch.ones_like(X).triu(1).bool(), -torch.inf).softmax(D)"
SOFTMAX: tuple[Row, ...] = tuple(
    ("softmax(X, dim=D)", new, words, mistake)
    for new, words, mistake in (
        ("X", "softmax is missing", "no-softmax"),
        ("Z.softmax(D)", "softmax is taken twice", "double-softmax"),
        ("X.exp()", "exp is taken and not divided by its sum", None),
        ("X.exp() / X.exp().sum(D, keepdim=True)", "exp is taken of large scores as they are", None),
        (LARGEST, "the largest score of the whole tensor is subtracted, not that of each row", None),
        ("X / X.sum(D, keepdim=True)", "scores are divided by their sum, without exp", None),
        ("X.flatten().softmax(0).view_as(X)", "softmax runs over the whole tensor", "softmax-wrong-axis"),
        ("torch.ones_like(X).softmax(D)", "all weights over the axis {axis} are equal", None),
        ("(X >= X.amax(D, keepdim=True)).to(X.dtype)", "the largest along {axis} gets all the weight", None),
        ("X.sigmoid()", "a sigmoid stands in the place of softmax", None),
        ("X.softmax(D).log()", "a logarithm is taken of softmax", None),
        (CAUSAL, "later tokens are hidden", None),
    )
)
LOGARITHMS: tuple[Row, ...] = (
    ("log_softmax(X, dim=D)", "X.softmax(D)", "the logarithm is missing", None),
    ("log_softmax(X, dim=D)", "X", "softmax is missing before the logarithm", None),
    (
        "log_softmax(X, dim=D)",
        "X.softmax(D).log()",
        "softmax, whose smallest weights are 0, has its logarithm taken",
        None,
    ),
    ("exp(X)", "X", "exp is missing", None),
    ("log(X)", "X", "the logarithm is missing", None),
)
LAYOUT: tuple[Row, ...] = (
    ("reshape(transpose(X, A, B))", "X.reshape(Z.shape)", "axes are merged as they stand", "merge-without-transpose"),
    (
        "flatten(transpose(X, A, B), start_dim=N)",
        "X.reshape(Z.shape)",
        "axes are merged as they stand",
        "merge-without-transpose",
    ),
    ("transpose(view(X), A, B)", "X.reshape(Z.shape)", "heads are cut by a view alone", "split-without-transpose"),
    ("transpose(X, A, B)", "X.reshape(Z.shape)", "axes are reshaped, not exchanged", None),
    ("X.T", "X.reshape(X.T.shape)", "a matrix is reshaped, not transposed", None),
    ("X.mT", "X.reshape(X.mT.shape)", "a matrix is reshaped, not transposed", None),
    ("X.T", "X", "a matrix is not transposed", None),
    ("X.mT", "X", "a matrix is not transposed", None),
    ("W @ V", "W.mT @ V", "the first factor of a product is transposed", None),
    ("flatten(X, start_dim=A)", "X", "axes are not merged", None),
    (
        "repeat_interleave(X, N, dim=D)",
        "torch.cat([X] * (N), D)",
        "heads are repeated as a whole, not each in turn",
        "kv-heads-tiled",
    ),
    ("flip(X, dims=D)", "X", "the order is not reversed", None),
)
CHOICES: tuple[Row, ...] = (
    ("all(X, dim=D)", "X.any(D)", "one along {axis} is enough", None),
    ("any(X, dim=D)", "X.all(D)", "all along {axis} are asked for", None),
    ("argmax(X, dim=D)", "X.argmin(D)", "the smallest along {axis} is chosen", None),
    ("abs(X)", "X", "the sign is kept", None),
    ("nan_to_num(X)", "X", "a nan is left as it is", "nan-on-hidden-rows"),
    ("nan_to_num(X, nan=N)", "X", "a nan is left as it is", "nan-on-hidden-rows"),
    ("X // Y", "-(-(X) // (Y))", "a division is rounded up", None),
    ("A - B", "B - A", "a difference is taken the other way round", None),
)
FORMS = (*MASKS, *SOFTMAX, *LOGARITHMS, *LAYOUT, *CHOICES)
REDUCTIONS = {"sum": "the sum", "mean": "the mean", "amax": "the maximum", "amin": "the minimum"}
JOINS = ("cat", "stack")
ALONG = (*REDUCTIONS, "softmax", "log_softmax", "logsumexp", "cumsum", "argmax", "argmin", "all", "any")
BOUND, REVERSED = "the bound itself {}", "a comparison is turned round"
ORDERS: Mapping[type[ast.cmpop], tuple[tuple[str, str], ...]] = {
    ast.Lt: (("<=", BOUND.format("counts, too")), (">", REVERSED)),
    ast.LtE: (("<", BOUND.format("is left out")), (">=", REVERSED)),
    ast.Gt: ((">=", BOUND.format("counts, too")), ("<", REVERSED)),
    ast.GtE: ((">", BOUND.format("is left out")), ("<=", REVERSED)),
    ast.Eq: (("!=", REVERSED),),
    ast.NotEq: (("==", REVERSED),),
}
DIVISIONS = ("*", "{} is a factor, not a divisor", "the division by {} is missing")
SIGNS: Mapping[type[ast.operator], tuple[str, str, str]] = {
    ast.Add: ("-", "{} is subtracted, not added", "{} is not added"),
    ast.Sub: ("+", "{} is added, not subtracted", "{} is not subtracted"),
    ast.Mult: ("/", "{} is a divisor, not a factor", "the factor {} is missing"),
    ast.Div: DIVISIONS,
    ast.FloorDiv: DIVISIONS,
}
OF_MASK = (
    ("~R", "True and False are exchanged"),
    ("R.float()", "True and False are the numbers 1 and 0"),
    ("torch.zeros(R.shape).masked_fill(~R, -torch.inf)", "the mask holds 0 and -inf, to be added to scores"),
)
OF_FLOATS = (
    ("-R", "the sign is reversed"),
    ("R.softmax(-1)", "softmax is taken at the end"),
    ("R.exp()", "exp is taken at the end"),
    ("R.log()", "a logarithm is taken at the end"),
)
OF_AXIS = (
    ("R.flip({})", "the order of {} is reversed"),
    ("R.select({}, 0)", "only the first {} is given back"),
    ("R.select({}, -1)", "only the last {} is given back"),
    ("R.sum({})", "the sum over {} is given back"),
    ("R.mean({})", "the mean over {} is given back"),
)
OF_NUMBER = (
    ("{0} + 1", "`{0}` is larger by one"),
    ("{0} - 1", "`{0}` is smaller by one"),
    ("0", "`{0}` is 0"),
    ("1", "`{0}` is 1"),
)
OF_LIST = (("{0}[::-1]", "`{0}` comes in reverse order"), ("[{0}[0]] * len({0})", "the first of `{0}` is used for all"))
OF_TENSOR = (("-{0}", "the sign of `{0}` is reversed"), ("torch.zeros_like({0})", "`{0}` plays no part"))
ALONG_AXIS = (
    ("{0}.flip({1})", "`{0}` comes in reverse order of {2}"),
    ("{0}.roll(1, {1})", "`{0}` is shifted by one along {2}"),
    ("{0}.roll(-1, {1})", "`{0}` is shifted by one along {2}, to the front"),
    ("{0}.narrow({1}, 0, 1).expand_as({0})", "the first {2} of `{0}` is used for all"),
)
