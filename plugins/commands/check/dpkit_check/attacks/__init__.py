"""The attacks of the kit, one module for each thing that is tried, for all kinds of parts that it can hit.

Every attack is a function ``check_<property>(make, trial)``, made a check by the decorator
``dpkit_check.trial.attack``, by which the kit finds it. It returns ``Evidence``, raises ``CheckFailed`` with
a counterexample, or raises ``NotApplicable``. The last paragraph of its docstring says what to do if it
fails.
"""
