"""dpkit: differentially private feature selection and regression, assembled from published parts.

What most programs and parts need, by name. They are listed in ``__init__.pyi`` and load on first use, so
that importing the package, ``dpkit list`` and ``dpkit --help`` cost no numerical library.

The rest of the core is in rooms, from the floor up: ``files`` (read strictly, written whole), ``privacy``
(relations, budgets, events), ``noise`` (exact sampling), ``data`` (sources, schemas, datasets), ``protocols``
(what parts promise), ``mechanisms`` (calibration and private statistics for parts to build on), ``plugins``
(finding parts), ``release`` (certificates and their verification), ``ledger`` (what a table has cost) and
``pipeline`` (planning and running). The modules that are public are listed in the reference.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
