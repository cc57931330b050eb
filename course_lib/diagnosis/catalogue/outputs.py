"""Mistakes at the way out: the output projection, and what is returned."""

from .mistake import MEASURED, Mistake, Origin, Step, Symptom

OUTPUTS = (
    Mistake(
        "output-projection-missing",
        "The output projection is never applied.",
        "The module has the parameters of W_O and returns the merged heads without them. W_O is what lets the "
        "heads' results be weighed and mixed. Its parameters never train, and if W_O is square, the shape is right.",
        "The projection's weight gets no gradient; the output does not change with it.",
        "A published class of Llama's attention.",
        "Which line reads the output projection?",
        "03",
        Origin(Step.OUTPUT),
    ),
    Mistake(
        "output-projection-shape",
        "The output projection has its widths exchanged.",
        "`nn.Linear(d_out, d_in)` returns tokens as wide as they came in. It must give tokens of width d_out. "
        "With d_in = d_out, as in most examples, nothing shows.",
        "With d_in and d_out that differ, the output's last axis is d_in wide.",
        "A published class; its example has d_in = d_out = 6.",
        "How wide is the output when the input is narrower?",
        "05",
        Origin(Step.OUTPUT),
    ),
    Mistake(
        "weights-not-applied",
        "The weights are computed and the values are returned unmixed.",
        "Scores, mask and softmax are all there, and the output is made from the values alone. The weights must "
        "multiply the values. Every token keeps its own value, which is even causal.",
        "The output of a token does not change when any other token does.",
        "Refactored code that returns `values` from the wrong branch.",
        "Which line multiplies the weights with something?",
        "01",
        Origin(Step.VALUES),
    ),
    Mistake(
        "returns-none",
        "The module returns nothing.",
        "The last line computes the output and there is no return, or it stands in a branch. A function without a "
        "return gives None. It fails at the next layer, far from its cause.",
        "The call returns None, and the next layer fails.",
        "A published class, annotated to return three things.",
        "What does the last line of forward return?",
        "01",
        Origin(Step.OUTPUT, symptom=Symptom.BEHAVIOUR),
    ),
    Mistake(
        "input-modified",
        "The input is changed in place.",
        "An operation with an underscore, or `+=`, writes into x or into a view of it. A module must leave its "
        "input alone, because residual connections and other layers still need it. The first call looks right and "
        "the second differs.",
        "After the call x holds other numbers, and a second call on it gives another output.",
        "`x += position` and `masked_fill_` on a view of an argument.",
        "Is x after the call what it was before?",
        "04",
        Origin(Step.INPUT, ("stale-cache",), Symptom.BEHAVIOUR),  # A second run on a changed x gives another output.
    ),
    Mistake(
        "batch-mixed",
        "Samples of a batch influence each other.",
        "An axis is missing or too many, so that softmax, a product or a reshape runs through the samples. Each "
        "sample must come out as it would alone. With one sample, or equal ones, some of these mistakes do not show.",
        "Change each sample in turn: the output of another one moves.",
        "A published example whose batch is the same sample twice.",
        "Does the output of one sample change with another one?",
        "02",
        Origin(Step.ANY, MEASURED, Symptom.BEHAVIOUR),  # The weights are not those of one sample.
    ),
    Mistake(
        "gate-unused",
        "A gate is prepared and never applied.",
        "A projection with a sigmoid is computed, or only built, and nothing is multiplied with it. It must "
        "multiply the heads' results before the output projection. The shape is the same, and a model trains "
        "without the gate.",
        "Change the gate's weights: the output stays the same.",
        "Ports of gated attention in which the product is not assigned.",
        "Which line reads the gate?",
        "12",
        Origin(Step.OUTPUT, ("output-projection-missing", "projection-reused")),  # The gate's weights are unused.
    ),
    Mistake(
        "dead-parameter",
        "A part that is built changes nothing.",
        "A table of biases, a matrix that mixes heads, a norm or an activation is built, and no line uses it or its "
        "result is dropped. Each part must change the output, though softmax may cancel a bias of the keys. Its "
        "parameters get no gradient, fill memory and are saved with the model.",
        "Change that parameter: the output stays the same. After a backward pass its gradient is None, unlike that of "
        "a bias of the keys.",
        "`scores + bias` on a line of its own.",
        "Which parameters have no gradient after one step?",
        "12",
        Origin(Step.ANY, ("value-unused",), Symptom.TEXT),  # What is computed with it is read nowhere.
    ),
    Mistake(
        "value-unused",
        "A value is computed or kept, and no line reads it.",
        "A line keeps the input for a residual connection, or computes another step, and the lines below go on with "
        "another name; or a module is given a tensor that its forward does not use. Each value of the tokens must be "
        "read by a later line. The shapes stay the same, and the step is left out.",
        "A linter reports a local variable that is assigned and never used; without its line the output is the same.",
        "A sum with the residual that was lost when the line of the norm was rewritten.",
        "Which line reads the name that this line assigns?",
        "12",
        Origin(symptom=Symptom.TEXT),
    ),
)
