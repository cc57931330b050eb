"""Find numbers that an author chose by name, so that only the author can know whether they are right."""

import ast
import re

from course_lib.diagnosis.measure import Subject

from .attributes import statements_that_set

SCALE = re.compile(r"scal|multipl|temperature", re.I)
# Set to 1, or to what a configuration calls a scale; a power that is computed from a width is no choice.
CHOSEN = re.compile(r"1(\.0?)?|(self\.)?(config|cfg|args|params|hparams)\.(\w+)( ?\*\* ?\(?-0\.5\)?)?")


def scale_by_choice(subject: Subject, factor: float) -> str | None:
    """Return the statement that chooses exactly this scale, `self.scaling = config.multiplier`; None if none does."""
    for module in subject.modules.values():
        for name, value in vars(module).items():
            number = isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0
            if not number or not SCALE.search(name) or "norm" in name or abs(value / factor - 1) > 1e-6:
                continue
            for _, statement in statements_that_set(subject, name):
                text = ast.unparse(getattr(statement, "value", None) or statement)
                chosen = CHOSEN.fullmatch(text)
                if chosen and (chosen[4] is None or SCALE.search(chosen[4])):
                    return f"`self.{name} = {text}`"
    return None
