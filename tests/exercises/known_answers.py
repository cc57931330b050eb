"""All answers of the files `answers_*.py`, read once for every test that judges them.

RIGHT: "exercise" -> its right answers; WRONG: "exercise" -> wrong answers, each followed by what is said of it.
"""

import importlib.util
from pathlib import Path

RIGHT, WRONG = {}, {}

for _path in sorted(Path(__file__).parent.glob("answers_*.py")):
    _spec = importlib.util.spec_from_file_location(f"known_{_path.stem}", _path)
    _module = importlib.util.module_from_spec(_spec)
    _spec.loader.exec_module(_module)
    RIGHT |= _module.RIGHT
    WRONG |= _module.WRONG
