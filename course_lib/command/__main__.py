"""Run the `course` command as `python -m course_lib.command`, for shells that do not find the script."""

import sys

from . import main

sys.exit(main())
