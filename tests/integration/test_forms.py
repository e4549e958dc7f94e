"""One release from the same records and seed, however the records are held and in whatever order."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import sparse

from dpkit_core import (
    Budget,
    Column,
    Dataset,
    Neighboring,
    Randomness,
    Registry,
    Schema,
    SparseDataset,
    StreamedDataset,
    compose,
    open_source,
)
from dpkit_core.data import dataset, sums

FEATURES = ["a", "b", "c", "d"]
AR, RO = Neighboring
BOUNDED, UNBOUNDED = "bounded", "unbounded"
RELATIONS = pytest.mark.parametrize("relation", list(Neighboring))


def on_sums(kind):
    """Return the installed parts that take every form."""
    registry = Registry()
    loaded = {ref.name: registry.load(ref) for ref in registry.refs(kind)}
    return sorted(name for name, part in loaded.items() if "streamed" in getattr(part, "forms", ()))


REGRESSORS, SCORERS = on_sums("regressors"), on_sums("scorers")


def test_the_parts_that_add_up_say_so():
    assert {"adassp", "boosted_adassp", "boosted_trees", "mean", "winsorized_least_squares"} <= set(
        REGRESSORS
    )
    assert "correlation" in SCORERS


@pytest.fixture(params=[BOUNDED, UNBOUNDED])
def bounds(request):
    return (-3.0, 4.0) if request.param == BOUNDED else (None, None)


@pytest.fixture
def forms(tmp_path, monkeypatch):
    """Return what makes every form of one table for a schema, in small blocks."""
    monkeypatch.setattr(dataset, "BLOCK", 8 * 5 * 97)
    monkeypatch.setattr(sums, "BLOCK", 500)
    rng = np.random.default_rng(3)
    n = 1500
    X = rng.normal(size=(n, 4)) * (rng.random((n, 4)) < 0.5) * [1, 5, 0.1, 1e3]
    y = X[:, 0] + 0.1 * X[:, 1] + rng.standard_t(2, size=n)
    order = rng.permutation(n)
    folder = tmp_path / "folder"
    for name, part in zip("zyx", np.array_split(order, 3), strict=True):
        (folder / name).mkdir(parents=True)
        pq.write_table(
            pa.table({"y": y[part], **dict(zip("dcba", X[part].T[::-1], strict=True))}),
            folder / name / "0.parquet",
        )

    def blocks():
        return ((X[part], y[part]) for part in np.split(order, [1, 5, 700])[::-1])

    def make(schema):
        return {
            "dense": Dataset.from_arrays(X, y, schema),
            "by column": Dataset.from_arrays(np.asfortranarray(X), y, schema),
            "permuted": Dataset.from_arrays(X[order], y[order], schema),
            "csr": SparseDataset.from_arrays(sparse.csr_array(X), y, schema),
            "csc": SparseDataset.from_arrays(sparse.csc_array(X[order]), y[order], schema),
            "blocks": StreamedDataset.from_blocks(blocks, schema),
            "folder": StreamedDataset.from_source(open_source(folder), schema),
        }

    return make


def schema_of(bounds, relation):
    return Schema(
        [Column(name, lower=bounds[0], upper=bounds[1]) for name in FEATURES],
        Column("y", lower=bounds[0], upper=bounds[1]),
        relation,
    )


@pytest.mark.parametrize(
    ("bounds", "relation"),
    [
        pytest.param(BOUNDED, AR, marks=pytest.mark.slow),
        pytest.param(UNBOUNDED, RO, marks=pytest.mark.slow),
        # Forms show in sums alone, and those of each range and each relation are above.
        pytest.param(BOUNDED, RO, marks=pytest.mark.exhaustive),
        pytest.param(UNBOUNDED, AR, marks=pytest.mark.exhaustive),
    ],
    indirect=["bounds"],
)
@pytest.mark.parametrize("regressor", REGRESSORS)
def test_a_model_does_not_depend_on_the_form_or_order_of_the_records(regressor, bounds, relation, forms):
    options: dict[str, dict[str, Any]]
    options = {
        "adassp": {"feature_norm": 3.0, "label_norm": 2.0},
        "boosted_adassp": {"rounds": 4},
        "boosted_trees": {"trees": 3},
        "frank_wolfe": {"rounds": 8},
        "sgbdt": {"rounds": 4},
    }
    schema = schema_of(bounds, relation)
    pipeline = compose(regressor=regressor, options={"regressor": options.get(regressor, {})})
    plan = pipeline.plan(schema, Budget(2.0, 1e-6))
    released = {
        form: plan.run(data, randomness=Randomness.from_seed(5)).to_document()
        for form, data in forms(schema).items()
    }
    for form, document in released.items():
        assert document == released["dense"], form


@pytest.mark.first(1)
@RELATIONS
@pytest.mark.parametrize("center", ["schema", "private"])
@pytest.mark.parametrize("regressor", ["winsorized_least_squares", "tukey"])
def test_selected_columns_reach_every_regressor(center, regressor, relation, forms):
    schema = schema_of((-3.0, 4.0), relation)
    pipeline = compose(
        scorer="correlation", selector="peel", regressor=regressor, options={"scorer": {"center": center}}
    )
    plan = pipeline.plan(schema, Budget(6.0, 1e-5), k=2)
    released = {
        form: plan.run(data, randomness=Randomness.from_seed(5)) for form, data in forms(schema).items()
    }
    for form, release in released.items():
        assert release.selected == released["dense"].selected, form
        # A regressor that wants records, and not sums, draws its groups by their order.
        if regressor != "tukey" or form in {"by column", "csr"}:
            assert release.to_document() == released["dense"].to_document(), form


def test_a_regressor_that_wants_records_gets_the_selected_ones_alone_in_memory(forms):
    seen = []

    class Watched(StreamedDataset):
        def dense(self):
            seen.append(self.names)
            return StreamedDataset.dense(self)

    schema = schema_of((-3.0, 4.0), Neighboring.ADD_OR_REMOVE_ONE)
    data = forms(schema)["folder"]
    watched = Watched(data.read, data.records, data.features, data.target, data.target_bounds)
    plan = compose(scorer="correlation", selector="peel", regressor="tukey").plan(
        schema, Budget(6.0, 1e-5), k=2
    )
    release = plan.run(watched, randomness=Randomness.from_seed(5))
    assert seen == [release.selected]
