"""The argument for each part is where the part says that it is, and the page of proofs shows it."""

import pytest
from arguments import assert_argued

from dpkit_core.plugins.kinds import ComponentRef
from dpkit_core.plugins.registry import Registry

PARTS = [ref for ref in Registry().refs() if ref.distribution.startswith("dpkit-")]
each_part = pytest.mark.parametrize("ref", PARTS, ids=lambda ref: ref.qualified)


@each_part
def test_it_says_where_it_is_argued_and_whose_it_is(ref: ComponentRef) -> None:
    assert_argued(Registry().load(ref))
