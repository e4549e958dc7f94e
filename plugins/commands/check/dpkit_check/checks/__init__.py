"""The checks of the kit, one module for each kind of part and one for what all parts share.

Every check is a function ``check_<property>(make, trial)``, made a check by the decorator
``dpkit_check.check.check``, by which the kit finds it. It returns ``Evidence``, raises
``CheckFailed`` with a witness, or raises ``NotApplicable``. The last paragraph of its docstring says what to
do if it fails.
"""
