"""Find the operations between scores and value products, and which of them mask or are a softmax."""

from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from course_lib.tracing import Operation

from .operation_names import EXPONENTIALS, SOFTMAXES
from .scores import Scores
from .structure import AfterStructure

MASKS = (
    "masked_fill", "masked_fill_", "where", "tril", "triu", "tril_", "triu_", "index_put_", "index_fill_",
    "masked_scatter", "index_fill", "copy_", "fill_", "index_put", "masked_scatter_",
)  # fmt: skip
SUMS = ("add", "add_", "sub", "sub_", "mul", "mul_", "rsub", "baddbmm", "addmm")


@dataclass(frozen=True, eq=False)
class SoftmaxPath(AfterStructure):
    """How scores become attention weights.

    Attributes:
        scores: of the run.
        operations: those that a score passes before a value product, in order.
    """

    scores: Scores
    operations: list[Operation]

    @cached_property
    def named_softmaxes(self) -> list[Operation]:
        """The softmaxes that are PyTorch's own functions."""
        return [operation for operation in self.operations if operation.name in SOFTMAXES]

    @cached_property
    def softmaxes(self) -> list[Operation]:
        """The softmaxes, or the exponentials if softmax is written out."""
        return self.named_softmaxes or [operation for operation in self.operations if operation.name in EXPONENTIALS]

    @cached_property
    def masking(self) -> list[Operation]:
        """The operations that apply a mask, according to their effect on the scores."""
        on_input = self.dependence.on_input
        found = []
        for operation in self.operations:
            constants = [v.tensor for v in operation.inputs if not on_input(v) and v.tensor.dim() >= 2]
            if operation.name in MASKS or (operation.name in SUMS and any(map(_varies, constants))):
                found.append(operation)
        return found

    @cached_property
    def hiding(self) -> list[Operation]:
        """The masking operations without biases, such as those of distances; all if only biases are left."""
        return [operation for operation in self.masking if not self._is_bias(operation)] or self.masking

    def _is_bias(self, operation: Operation) -> bool:
        """Return whether an operation adds or multiplies ordinary numbers, none of which hides a score."""
        inputs = (value for value in operation.inputs if not self.dependence.on_input(value))
        tensors = [value.tensor for value in inputs if value.tensor.dim() >= 2]
        return operation.name in SUMS and not any(map(_hides, tensors))

    @cached_property
    def masking_after_softmax(self) -> list[Operation]:
        """The operations that apply a mask after a softmax of the same scores."""
        found: list[Operation] = []
        for softmax in self.softmaxes:
            after = self.trace.descendants({softmax.number})
            normalised = self.scores.in_value(softmax.outputs[0])
            for operation in self.masking:
                same = operation.number in after and normalised & self.scores.in_value(operation.outputs[0])
                if same and operation is not softmax and operation not in found:
                    found.append(operation)
        return found


def find_softmax_path(scores: Scores) -> SoftmaxPath:
    """Find the operations that a score passes before a value product."""
    products = scores.structure.value_products
    last = max(product.factors[0].number for product in products)
    before = scores.trace.ancestors([value for product in products for value, _ in product.sides()])
    passed = before & scores.structure.score_descendants
    operations = [one for one in scores.trace.operations[: last + 1] if one.number in passed and one.outputs]
    return SoftmaxPath(scores.structure, scores, [one for one in operations if scores.reaches(one.outputs[0])])


def _varies(tensor: Tensor) -> bool:
    return tensor.numel() > 1 and bool((tensor != tensor.flatten()[0]).any())


def _hides(tensor: Tensor) -> bool:
    """Return whether a tensor is a mask: of booleans or two numbers, or with elements that no score outweighs."""
    if not tensor.is_floating_point() or len(tensor.unique()) <= 2:
        return True
    return bool((tensor < -100).any())
