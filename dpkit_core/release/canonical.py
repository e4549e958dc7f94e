r"""One spelling of a document, so that digests, chains and signatures mean the same everywhere.

The canonical bytes of a JSON document are its JSON text with

1. the keys of every object in the order of their Unicode code points;
2. no white space between tokens;
3. text in ASCII: ``\"``, ``\\``, ``\b``, ``\f``, ``\n``, ``\r`` and ``\t`` so escaped, every other character
   below U+0020 or above U+007E but U+007F as ``\u`` and four lowercase hexadecimal digits, two of them where
   UTF-16 needs a pair;
4. whole numbers in decimal, and any other number as the shortest decimal that reads as the same float64, with
   an exponent, of two digits at least, below 1e-4 and from 1e16 on: ``0.1``, ``1e-06``, ``1.5e+16``. A number
   that is whole but was written with a point keeps it: ``1.0`` is not ``1``.

That is ``json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)`` of Python.
Indentation and the order of keys in a file are therefore nobody's business, and one changed digit is.
"""

from __future__ import annotations

import hashlib
import json


def canonical_bytes(document: object) -> bytes:
    r"""Return the canonical bytes of plain data.

    >>> canonical_bytes({"b": [1, 0.1, 1e-6], "a": "\u00e9"})
    b'{"a":"\\u00e9","b":[1,0.1,1e-06]}'
    """
    return json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")


def digest(document: object) -> str:
    """Return the SHA-256 of the canonical bytes, in hexadecimal.

    >>> digest({"a": 1})[:16]
    '015abd7f5cc57a2d'
    """
    return hashlib.sha256(canonical_bytes(document)).hexdigest()
