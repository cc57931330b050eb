"""What the errors of Python and PyTorch mean, and one question for each."""

from .shape_leads import OTHER_SHAPES, SHAPES, Lead

_MASKS = (
    Lead(
        r"ambiguous",
        "`if`, `not` and `and` need one truth value, and a tensor of several elements has several.",
        "Should this compare element by element, or ask whether all or any are true?",
    ),
    Lead(
        r"masked_fill|boolean masks|condition to be a boolean|operator.invert|bitwise_not",
        "A mask must be bool: True or False, not 1.0 or 0.0.",
        "Which dtype does your mask have, and what turns it into bool?",
    ),
    Lead(
        r"operator, (on|with) a bool tensor",
        "True and False are not numbers: a bool tensor is inverted by `~`.",
        "How do you write the opposite of a bool mask?",
    ),
)

_GRAPH = (
    Lead(
        r"backward through the graph a second time",
        "Your code uses a tensor of an earlier call again, whose backward pass is over.",
        "What is kept from one call to the next: keys, scores, a mask in an attribute or a default argument?",
    ),
    Lead(
        r"leaf Variable that requires grad",
        "A parameter that is trained may be changed in place only under `torch.no_grad()`.",
        "Which lines belong into a block `with torch.no_grad():`?",
    ),
    Lead(
        r"modified by an inplace operation",
        "A tensor was changed in place after the graph had stored it for the backward pass.",
        "Which line changes a tensor instead of making one? Look for `+=`, `[...] =` and a `_` at the end.",
    ),
    Lead(
        r"call numpy\(\) on Tensor that requires grad|Can't call numpy",
        "NumPy knows nothing of the graph: no gradient would come back from there.",
        "Which function of torch does the same?",
    ),
    Lead(
        r"grad can be implicitly created only for scalar",
        "`backward` starts from one number, and this tensor has several.",
        "How do you make one number of all elements?",
    ),
    Lead(
        r"does not require grad",
        "This tensor does not depend on any parameter, as far as the graph knows, which is not kept under "
        "`torch.no_grad()` or behind `.detach()` and `.item()`.",
        "Which line leaves the graph?",
    ),
    Lead(
        r"cannot assign '?[\w.]+'? as parameter",
        "A parameter can only be replaced by a parameter.",
        "Would you rather copy the values into the one that is there, under `torch.no_grad()`?",
    ),
    Lead(
        r"loading state_dict.*size mismatch.*Size\(\[\d+, \d+, \d+\]\) from.*Size\(\[\d+, \d+\]\)",
        "A matrix has another number of axes than its parameter.",
        "Which function joins tensors along an axis that they have, and which makes a new one?",
    ),
    Lead(
        r"Error\(s\) in loading state_dict",
        "The names or the shapes in the state are not those of the module.",
        "Which names and shapes does `state_dict()` of the new module list?",
    ),
)

DTYPE = Lead(
    r"same dtype|dtypes (must be the same|match)|dtype to be equal|expected dtype (float|double)"
    r"|(expected|same|of) scalar type|dtype mismatch|but found (Double|Float|Long|Int|Bool)",
    "The check computes in float64 and in float32: make your own tensors with `dtype=x.dtype`, or from x.",
    "Which dtype does each tensor on this line have?",
)

_TYPES = (
    Lead(
        r"could not infer output dtype",
        "A mean is a number with decimals, and this tensor holds booleans or integers.",
        "Which method makes floating-point numbers of them?",
    ),
    DTYPE,
    Lead(
        r'missing the required "forward"',
        "A list of modules only holds them, and each of them is called by itself.",
        "How do you call every module in the list, and what becomes of their results?",
    ),
    Lead(
        r"before Module.__init__",
        "A module can hold layers only after `nn.Module` has been set up.",
        "What is the first line of `__init__` in every module of the lessons?",
    ),
    Lead(
        r"__init__\(\) (takes|missing|got)",
        "The class is called with other arguments than its `__init__` takes.",
        "Is `__init__` spelt with two underscores on each side, and which arguments does it take?",
    ),
    Lead(
        r"NameError|UnboundLocalError",
        "Nothing has given this name a value before this line.",
        "Where should this name come from: an argument, a line above, another cell, or `self.`?",
    ),
    Lead(
        r"builtin_function_or_method|'method'|'function'|not subscriptable",
        "A function or method stands here that was not called.",
        "Are parentheses missing after a name?",
    ),
    Lead(
        r"'NoneType'",
        "Something is None that should be a value, as from a function without `return`, or `.grad` without a gradient.",
        "Which name on this line is None?",
    ),
    Lead(
        r"torch.return_types",
        "`max` over one axis gives back two tensors, `values` and `indices`.",
        "Which of the two do you want? `amax` gives only the values.",
    ),
    Lead(
        r"torch.Size",
        "`shape` holds the sizes of all axes; one of them is `shape[-1]`, for example.",
        "Which axis's size do you need?",
    ),
    Lead(
        r"'Tensor' object has no attribute '(append|extend|insert)'",
        "A tensor can't grow: `torch.cat` makes a new one of the old one and what is added.",
        "Along which axis should it become longer?",
    ),
    Lead(
        r"has no attribute",
        "What stands left of the dot does not have this attribute.",
        "Is it spelt right, and if it is your own, is it assigned in `__init__` with `self.` in front?",
    ),
    Lead(
        r"only one element tensors|only (integer )?tensors of a single element|Only one element",
        "`math` and `int` take one number, and this tensor has several.",
        "Do you want one size of the tensor here, or a function of torch that works on all elements?",
    ),
    Lead(
        r"must be Tensor, not (int|float)",
        "This function of torch takes a tensor and gets a plain number.",
        "Does Python have an operator for it, such as `** 0.5`, or should a tensor stand here?",
    ),
    Lead(
        r"'float' object cannot be interpreted|got \(float|must be tuple of ints|must be int, not float"
        r"|float.*as an index|got [\d.]+ \(float\)",
        "A size or a count must be an integer, and `/` gives a float.",
        "`/` or `//`?",
    ),
    Lead(
        r"'(list|tuple|generator)'|not list|not tuple|list indices must be|expected Tensor as element",
        "A list or tuple is no tensor: it has no arithmetic, and one index at a time.",
        "Do you want one of its elements here, or one tensor made of all (`torch.tensor`, `torch.stack`, `torch.cat`)?",
    ),
    Lead(
        r"unsupported (operand|format)|not iterable|object is not callable|can't multiply|not supported between",
        "These two types cannot be combined in this way.",
        "What is the type of each name on this line?",
    ),
    Lead(
        r"unexpected keyword argument|an invalid combination|missing \d+ required|positional argument|multiple values",
        "The function takes other arguments than this call passes.",
        "Which arguments does it take? `help(...)` tells, or a question mark after its name.",
    ),
    Lead(r"KeyError", "There is no such key.", "Which keys are there? Print them."),
    Lead(r"ZeroDivision", "Something is divided by zero.", "Which name on this line is 0, and for which arguments?"),
    Lead(
        r"RecursionError",
        "The function calls itself without an end.",
        "Does a name inside mean another function than you think?",
    ),
    Lead(
        r"TimeLimit|had not finished after \d",
        "A loop that never ends, or work that grows much faster than its input, takes this long.",
        "Which loop may never end?",
    ),
    Lead(
        r"NotInGrading",
        "In grading the course's own code is not there, so what is asked for can't be fetched from it.",
        "Which lines of your own compute the same?",
    ),
    Lead(
        r"PermissionError|FileNotFoundError|Read-only file system",
        "The code is run where there are no files of yours.",
        "What is asked for follows from the arguments: how?",
    ),
    Lead(
        r"allocate memory|MemoryError",
        "A tensor is asked for that is larger than the memory.",
        "Which sizes does it have, and which of them should it have?",
    ),
    Lead(
        r"each must go in once",
        "The caches hold what the model has read: give the model only what it has not read, and its caches.",
        "What goes into the first call, and what into every later one?",
    ),
    Lead(
        r"SyntaxError|IndentationError",
        "Python cannot read this line.",
        "Is a bracket, a colon or a quotation mark missing, here or one line above?",
    ),
)

_CACHE = (
    Lead(
        r"the cache holds \d+ kv heads",
        "A cache stays small because it holds each kv head once.",
        "Which comes first: the cache, or the copies for the query heads?",
    ),
    Lead(
        r"for a piece of \d+ tokens",
        "An output has as many tokens as the piece that came in with this call: (batch, token, d_out).",
        "Which tokens are new in this call, and which are only looked at?",
    ),
    Lead(
        r"the output and the cache|that `forward` gives back first",
        "`forward` ends by `return output, cache`: first the output, then what the next call is given as `cache`.",
        "What does the last line of `forward` give back?",
    ),
)

_PLACES = (
    Lead(
        r"MixedDevices",
        "On a GPU this line would fail: a tensor that your code makes is on the CPU, unless it is made with "
        "`device=x.device`.",
        "Which tensor on this line did your code make, and in which line?",
    ),
    Lead(
        r"without overflow",
        "A number stands here that this dtype can't hold: float32 ends at about 3e38.",
        "Which number is below every score, in every dtype?",
    ),
)

# The first pattern that fits counts.
LEADS = (*_PLACES, *_CACHE, *SHAPES, *_MASKS, *OTHER_SHAPES, *_GRAPH, *_TYPES)
