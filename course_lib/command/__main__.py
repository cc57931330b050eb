"""``python -m course_lib.command``: the ``course`` command where the script is not on the path."""

import sys

from course_lib.command import main

sys.exit(main())
