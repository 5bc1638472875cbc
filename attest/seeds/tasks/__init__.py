"""Tasks drawn from item keys: an evaluation set is a function of the epoch's seed and of nothing else.

Four environments, each with levels 1 to 5: ``abduction`` (a program and its output: find an input), ``deduction``
(predict the output), ``lists`` (from examples to the function), ``sat`` (find a satisfying assignment). Every choice
comes from ``attest.seeds.draw``; there is no float, no hash, no set order, no clock and no library but the standard
one, so that any interpreter gives the same tasks. Programs are in a small language of our own (``language``), run by
an interpreter with bounds; nothing that a model answers is ever executed, it is read as integers and compared.
"""
