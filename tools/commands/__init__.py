"""The subcommands of `course` that need a clone, one per file; course_lib/command/subcommands.py names them."""
