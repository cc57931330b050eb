"""The exercises whose answer is a layer of attention that no form of the course covers, such as a latent one."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from torch import Tensor, nn

from course_lib.wording import listed

from .answer import Answer, BuiltModule, Ran
from .answering import build_module, run_module
from .answering.from_source import FromSource
from .differences import Difference, Expected, difference
from .explanation import UNDEFINED
from .function_exercise import BY_HAND, QUESTIONS
from .input_generator import InputGenerator
from .learner_error import LearnerError
from .modules.sizes import draw_pieces
from .verdict import Verdict, not_passed, passed, stopped
from .wrong_answers import WithWrongAnswers

AXES = "batch token d_in"
IN_FLOAT32 = "Which of your tensors is float64, whatever came in?"
EPSILON = "What is added, or is a least value, so that it matters only where elements are small? Which epsilon?"
ROUNDING = 1e-3  # in float32, and of another epsilon where elements are not small
MORE = 1.5  # multiplications for each cached token, in proportion to the solution's


class Run(NamedTuple):
    """One run of the layer.

    Attributes:
        x: Its input.
        about: Words about it.
        pieces: The numbers of tokens in which x comes, with a cache; none for all at once.
        trains: Whether gradients are compared: of large elements they are all rounding.
        hint: A question that fits if this run is the first that is wrong, or "".
        rounding: How far it may be off; later runs are compared to the last digit.
    """

    x: Tensor
    about: str
    pieces: Sequence[int] = ()
    trains: bool = False
    hint: str = ""
    rounding: float = 0.0


@dataclass(frozen=True, kw_only=True)
class LayerExercise(WithWrongAnswers):
    """An exercise whose answer is a class of layers with the parameters that its prompt names.

    It is built with sizes that all differ, gets random weights, and is compared with the solution: all tokens at once,
    then in pieces with a cache, whose contents are compared as well, and which may not cost a step more
    multiplications for each token that it holds; then its gradients, and once in float32.

    Attributes:
        sizes: Draws the arguments of the constructor for several layers, of which the first is d_in.
        cache: Source of a class of caches that is built with the same arguments, and its name; forward takes one as
            `cache=`.
        per_token: The numbers that the cache keeps of a token, for the sizes.
        holds: What that is, in words.
    """

    sizes: Callable[[InputGenerator], Sequence[tuple[int, ...]]]
    cache: tuple[str, str]
    per_token: Callable[..., int]
    holds: str

    def _judge(self, answer: Answer, rng: InputGenerator) -> Verdict:
        if answer.kind != "class":
            hint = "Which name do you give to `check`, and are there parentheses behind it?"
            return not_passed(f"The answer is a {answer.kind}; it should be the class itself, uncalled.", hint=hint)
        for sizes in self.sizes(rng):
            runs = _draw_runs(sizes[0], rng)
            built = f"{self.name}({', '.join(map(str, sizes))})"
            about = f"It was built as {built}."
            try:
                module, right = answer.build(sizes, seed=0), build_module(self.solution, sizes, 0)
                if (wrong := _parameters(module, right, about)) is not None:
                    unwritten = self._unwritten(answer, module, runs[0].x)
                    return wrong if unwritten is None else unwritten
                weights = _weights(right, rng)
                for run in runs:
                    about = f"The run: {built} and {run.about}."
                    if (wrong := self._compare(module, weights, sizes, run, about, rng)) is not None:
                        return wrong
                about = f"The run: {built} in float32."
                if (wrong := self._in_float32(module, weights, sizes, runs[0], about)) is not None:
                    return wrong
            except LearnerError as error:
                return stopped(error, (self.name, answer.name), {}, (about,))
        return passed("Right at once and in pieces, for layers of different sizes, with its gradients.", ())

    def _unwritten(self, answer: Answer, module: BuiltModule, x: Tensor) -> Verdict | None:
        """Say so if a module whose parameters are wrong isn't written to its end."""
        try:
            module.run({}, (x,))
        except LearnerError as error:
            return stopped(error, (self.name, answer.name), {}) if error.unwritten else None
        return None

    def _compare(
        self,
        module: BuiltModule,
        weights: Mapping[str, Tensor],
        sizes: Sequence[int],
        run: Run,
        about: str,
        rng: InputGenerator,
    ) -> Verdict | None:
        options: dict[str, Any] = {}
        if run.pieces:
            options = {"steps": run.pieces, "cache": FromSource(*self.cache, tuple(sizes)), "counted": True}
        options |= {"cotangent": rng.normal(*run.x.shape)} if run.trains else {}
        # The right one first: what PyTorch imports meanwhile costs the learner no time.
        right = _ran(self.solution, weights, sizes, run, options)
        ran = module.run(weights, (run.x,), **options)
        if ran.changed:
            return not_passed("Your module changes `x` in place.", "input-modified")
        if found := difference(ran.result, Expected(right["result"], run.rounding, AXES, exact_dtype=True)):
            return self._wrong(ran.result, weights, sizes, run, options, found, about)
        if run.pieces:
            wrong = self._kept(ran, right["kept"], sizes, run, about)
            return _costly(ran.products, right["products"], about) if wrong is None else wrong
        for name, gradient in right["gradients"].items():
            own = ran.gradients.get(name)
            if own is None or difference(own, Expected(gradient)):
                sentence = f"The output is right, and the gradient of `{name}` is not."
                hint = "Which line takes a tensor out of the graph: `.data`, `.detach()`, `no_grad`, `torch.tensor`?"
                return not_passed(sentence, evidence=(about,), hint=hint)
        return None

    def _wrong(
        self,
        result: Any,
        weights: Mapping[str, Tensor],
        sizes: Sequence[int],
        run: Run,
        options: Mapping[str, Any],
        found: Difference,
        about: str,
    ) -> Verdict:
        for known in self.known:
            try:
                same = _ran(known.code, weights, sizes, run, options)["result"]
            except UNDEFINED:
                continue
            if difference(result, Expected(same, axes=AXES)) is None:
                sentence = f"Your module computes {known.equals}."
                return not_passed(sentence, known.mistake, evidence=(found.sentence, about), hint=known.hint)
        hint = run.hint or QUESTIONS.get(found.kind, BY_HAND)
        return not_passed(found.sentence, found.mistake, evidence=(about,), hint=hint)

    def _kept(self, ran: Ran, right: Tensor, sizes: Sequence[int], run: Run, about: str) -> Verdict | None:
        if ran.kept is not None and ran.kept.shape == right.shape and difference(ran.kept, Expected(right)) is None:
            return None
        numbers = 0 if ran.kept is None else ran.kept.numel()
        tokens = run.x.shape[0] * run.x.shape[1]
        sentence = f"The output is right, but the cache holds {numbers} numbers for {tokens} tokens in all samples"
        asked = f"; it should be {self.per_token(*sizes)} for each token: {self.holds}."
        if numbers == right.numel():
            sentence, asked = "The output is right, but the cache holds other numbers", f" than {self.holds}."
        return not_passed(sentence + asked, evidence=(about,), hint="What do you give to the cache, and when?")

    def _in_float32(
        self, module: BuiltModule, weights: Mapping[str, Tensor], sizes: Sequence[int], run: Run, about: str
    ) -> Verdict | None:
        result = module.run(weights, (run.x,), elsewhere="float32").result
        right = _ran(self.solution, weights, sizes, run, {})["result"].float()
        if found := difference(result, Expected(right, ROUNDING, AXES, exact_dtype=True)):
            return not_passed(found.sentence, found.mistake, evidence=(about,), hint=IN_FLOAT32)
        return None


def _draw_runs(d_in: int, rng: InputGenerator) -> list[Run]:
    batch, tokens, more = rng.sizes(3, 5, 12)
    pieces = *draw_pieces(more, rng), 1, tokens, 1  # the cost of two steps of one token is compared
    in_pieces = f"pieces of {listed(list(map(str, pieces)))} tokens with a cache"
    return [
        Run(rng.normal(batch, tokens, d_in), f"{batch} samples of {tokens} tokens", rounding=ROUNDING),
        Run(rng.normal(1, 1, d_in), "one token", rounding=ROUNDING),
        Run(rng.normal(2, more, d_in, std=4.0), f"2 samples of {more} tokens, larger elements", rounding=ROUNDING),
        Run(rng.normal(2, more, d_in, std=1e-3), f"2 samples of {more} tokens, elements of about 0.001", hint=EPSILON),
        Run(rng.normal(batch, sum(pieces), d_in), in_pieces, pieces),
        Run(rng.normal(batch, tokens, d_in), f"{batch} samples of {tokens} tokens, for gradients", trains=True),
    ]


def _costly(products: Sequence[int], right: Sequence[int], about: str) -> Verdict | None:
    """Compare by how much a step of one token costs more when the cache holds more tokens."""
    own, enough = (one[-1] - one[-3] if len(one) > 2 else 0 for one in (products, right))
    if own <= MORE * enough:
        return None
    sentence = f"The output is right, but a step multiplies {own / enough:.1f} times as much for each cached token."
    hint = "What does a step compute of every cached token that could be computed once with the new one?"
    return not_passed(sentence, evidence=(about,), hint=hint)


def _weights(right: nn.Module, rng: InputGenerator) -> dict[str, Tensor]:
    """Draw weights that keep attention between flat and all on one token; those of a norm are about 1."""
    shapes = {name: tuple(one.shape) for name, one in right.named_parameters()}
    return {
        name: rng.normal(*shape, std=1.2 * shape[-1] ** -0.5) if len(shape) > 1 else 1 + rng.normal(*shape, std=0.3)
        for name, shape in shapes.items()
    }


def _ran(
    code: Callable[..., Any], weights: Mapping[str, Tensor], sizes: Sequence[int], run: Run, options: Mapping[str, Any]
) -> dict[str, Any]:
    return run_module(build_module(code, sizes, 0), weights, (run.x,), **options)


def _parameters(module: BuiltModule, right: nn.Module, about: str) -> Verdict | None:
    """Compare the names and shapes of the parameters with those that the prompt asks for."""
    if not module.forward:
        sentence = "The class has no method `forward`, so that the module can't be called."
        return not_passed(sentence, hint="Is it spelt `forward`, and indented inside the class?")
    wanted = {name: tuple(one.shape) for name, one in right.named_parameters()}
    for name, shape in wanted.items():
        if name not in module.parameters:
            others = [other for other in module.parameters if other not in wanted]
            seen = f"It has {listed([f'`{other}`' for other in others])}, which nobody asks for." if others else about
            hint = "Under which names, and with `bias=False`, does the text list the layers?"
            return not_passed(f"The module has no parameter `{name}`.", evidence=(seen,), hint=hint)
        if module.parameters[name] != shape:
            sentence = f"`{name}` is {module.parameters[name]}; it should be {shape}, (out, in)."
            return not_passed(sentence, evidence=(about,), hint="What goes into this layer, and what comes out?")
    if extra := [name for name in module.parameters if name not in wanted]:
        sentence = f"The module has a parameter `{extra[0]}` that nobody asks for."
        return not_passed(sentence, evidence=(about,), hint="Did you write `bias=False`?")
    return None
