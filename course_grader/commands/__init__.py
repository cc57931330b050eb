"""The teacher's subcommands of `course`: release, grade and hub."""
