"""What errors about shapes and axes mean, and one question for each."""

import re
from typing import NamedTuple


class Lead(NamedTuple):
    """What an error means.

    Attributes:
        pattern: Of "type: text" of the error.
        meaning: One sentence.
        question: The question that leads on.
        code: A pattern that the source line must have, too.
    """

    pattern: str
    meaning: str
    question: str
    code: str = ""

    def fits(self, error: str, source: str) -> bool:
        """Return whether it is the lead for an error that a source line raised."""
        return bool(re.search(self.pattern, error) and re.search(self.code, source))


# Of products and sums of two tensors, in which the heads may stand at the wrong place.
SHAPES = (
    Lead(
        r"shapes cannot be multiplied",
        "A layer multiplies by its weight: the last size of what goes in must be its `in_features`.",
        "How wide is what goes into the layer here, and how wide was the layer made?",
        code=r"^(?!.*(@|mm\(|matmul|einsum|dot\(|linear\()).*\w\(",
    ),
    Lead(
        r"shapes cannot be multiplied|first two dimensions of batch2|inconsistent tensor size|size mismatch, got",
        "A product `left @ right` needs the last size of the left equal to the last but one of the right.",
        "Which two sizes should be equal here: is an operand to be transposed, or do the two stand in the wrong order?",
    ),
    Lead(
        r"The expanded size of the tensor",
        "`expand` repeats only an axis of size 1.",
        "Which axis is to grow, and how large is it? Which function repeats an axis of any size?",
        code=r"\.expand\(",
    ),
    Lead(
        r"must match the size of tensor b|The expanded size of the tensor",
        "The axes of two tensors are lined up from the right: two sizes must be equal, or one of them 1.",
        "What does each axis of the two count?",
    ),
    Lead(
        r"is invalid for input of size",
        "`view` and `reshape` keep the number of elements: the sizes that you ask for must multiply to it.",
        "Which of the sizes is another one than you think?",
    ),
)

OTHER_SHAPES = (
    Lead(
        r"view size is not compatible",
        "`view` reads memory as it lies: after a transpose the elements don't lie in the order of the axes, and in a "
        "part of a tensor its rows don't lie side by side.",
        "Which axes should be split or joined here, and in which order do their elements lie?",
    ),
    Lead(
        r"Sizes of tensors must match except in dimension|stack expects each tensor to be equal size",
        "Tensors that are joined must agree in all sizes but the one along which they are joined.",
        "Along which axis do you want to join them?",
    ),
    Lead(
        r"zero-dimensional tensor .* cannot be concatenated",
        "`torch.cat` joins tensors along an axis that they have, and a single number has none.",
        "Which function makes a new axis when it joins?",
    ),
    Lead(
        r"expected sequence of length",
        "The rows of a tensor must all have the same length.",
        "What stands in a row where the list ends early?",
    ),
    Lead(
        r"batch1 must be a 3D|1D tensors expected|must be 3D|einsum.*subscripts|number of subscripts",
        "This function asks for another number of axes than its argument has.",
        "How many axes does each argument have? Would `@`, which takes any number, do?",
    ),
    Lead(
        r"Dimension out of range|too many indices|Dimension specified as",
        "The tensor has fewer axes than this line expects.",
        "How many axes does it have here?",
    ),
    Lead(
        r"values to unpack",
        "The left side names another number of values than the right side holds: a shape has one value per axis.",
        "How many axes does it have here?",
    ),
    Lead(
        r"Number of dimensions of repeat dims|expand.*number of sizes provided|desired ordering of dimensions",
        "`repeat`, `expand` and `permute` take one number for each axis.",
        "How many axes does the tensor have here?",
    ),
    Lead(
        r"must be tuple of Tensors, not Tensor",
        "This function takes a list or tuple of tensors.",
        "Which tensors do you want to join, and how do you make a list of them?",
    ),
    Lead(
        r"slice indices must be",
        "A slice begins and ends at one integer each.",
        "Which single number should stand on either side of the colon?",
    ),
    Lead(
        r"index .* is out of bounds|index out of range|out of range",
        "An index is as large as the size of its axis, or larger; the first element has index 0.",
        "How far may this index count?",
    ),
    Lead(
        r"must have same number of dimensions",
        "Tensors that are joined must have the same number of axes.",
        "Which of them has an axis too few, and where should it be inserted?",
    ),
    Lead(
        r"Expected target size|Expected input batch_size",
        "`cross_entropy` takes the scores with the classes on axis 1, and the targets without that axis.",
        "On which axis do your classes stand? Which two axes could be flattened into one, in both?",
    ),
    Lead(
        r"shape mismatch|shape of the mask",
        "What stands in the brackets selects another number of elements than there are.",
        "Which elements does the index select, and what shape do they have?",
    ),
)
