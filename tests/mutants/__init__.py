"""Rules switched off one at a time: each must make a test fail that names the rule's spec id (``make mutants``).

A *mutant* is a rule of the running program replaced in memory: a guard that never objects, a flipped cell of a table, a
function that forgets one condition. No file is touched. The tests are collected once; each mutant then lives in a fork
of that process, which runs the unit tests whose names carry the mutant's spec id until one fails. A mutant that no
such test notices is a *survivor*: a rule that could be lost without anybody seeing it.
"""
