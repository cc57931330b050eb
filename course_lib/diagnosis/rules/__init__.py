"""Rules decide what measurements mean and yield the findings that they can prove, one file per group of mistakes.

A rule is a function with `@rule()`; the types of its parameters are the stages that it needs. `collect` finds the
modules of this package, so a new rule only needs a new file. No rule knows of another: which finding is a cause and
which an effect is decided by what the catalogue says of their mistakes.
"""
