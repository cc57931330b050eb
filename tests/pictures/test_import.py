"""What the pictures load, and when: matplotlib takes half a second, seaborn and pandas another."""

import subprocess
import sys

import pytest

HEAVY = ("matplotlib", "pandas", "seaborn", "transformers")
LOADED = f"print(*(name for name in {HEAVY} if name in sys.modules))"
DRAWN = {
    "": "",
    "layout_steps(record(lambda x: x.view(2, 1, 2).transpose(0, 1), torch.eye(2)))": "",
    "bar_chart({'a': 1.0}, title='t', unit='ms')": "matplotlib",
    "heatmap(torch.eye(2))": "matplotlib pandas seaborn",
}


@pytest.mark.slow
@pytest.mark.parametrize(("draw", "loaded"), DRAWN.items(), ids=["import", "layout", "bars", "heatmap"])
def test_a_drawing_library_is_loaded_by_the_first_picture_that_needs_it(draw, loaded):
    code = f"""
import sys, torch
from course_lib.pictures import bar_chart, heatmap, layout_steps
from course_lib.recorder import record
{draw}
{LOADED}
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == loaded
