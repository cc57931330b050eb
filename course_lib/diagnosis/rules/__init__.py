"""Rules decide what measurements mean and yield the findings that they can prove, one file per group of mistakes.

A rule is a function with `@rule(order=...)`; the types of its parameters are the stages that it needs. `collect` finds
the modules of this package, so a new rule only needs a new file. The hundreds of an order stand for the subject of the
rule: 0 the run itself, 100 samples and scores, 200 the weights and where they come from, 300 the output, 400 what other
runs show, 900 code in which nothing was found.
"""
