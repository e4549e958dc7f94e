"""Tables from files, generators, scikit-learn and OpenML, for which a server on this machine stands in."""

import hashlib
import http.server
import json
import threading
import urllib.parse
import urllib.request

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dpkit_command_bench.errors import MissingTable
from dpkit_command_bench.generators import five_ones
from dpkit_command_bench.sources import load, locate
from dpkit_command_bench.suite import TableSpec, find_suite

from dpkit_core import Dataset
from dpkit_core.privacy.budget import Neighboring

AR = Neighboring.ADD_OR_REMOVE_ONE
ARFF = """@RELATION stones
@ATTRIBUTE carat NUMERIC
@ATTRIBUTE cut {Fair,Good}
@ATTRIBUTE price NUMERIC
@DATA
0.5,Good,100
1.0,Fair,150
1.5,Good,400
2.0,Fair,420
"""
ENCODED = [[0.5, 0, 1], [1.0, 1, 0], [1.5, 0, 1], [2.0, 1, 0]]


def fetch(spec, tmp_path, data_dir=None, seed=0):
    return load(spec, data_dir=data_dir, folder=tmp_path, seed=seed, neighboring=AR)


@pytest.fixture
def csv(tmp_path):
    folder = tmp_path / "tables"
    folder.mkdir()
    lines = ["carat,cut,price", "0.5,Good,100", "1.0,Fair,150", "1.5,Good,400", "2.0,Fair,420"]
    (folder / "stones.csv").write_text("\n".join(lines) + "\n")
    return folder


STONES = TableSpec("stones", target="price", file="stones.csv", categories="from-data")


def test_a_file_is_encoded_and_what_was_read_from_it_is_said(csv, tmp_path):
    loaded = fetch(STONES, tmp_path, csv)
    assert loaded.data.X.tolist() == ENCODED
    assert loaded.data.y.tolist() == [100, 150, 400, 420]
    assert loaded.origin == "stones.csv"
    assert loaded.assertions == ("categories were read from the records, not known beforehand",)
    numbers = np.column_stack([ENCODED, [100, 150, 400, 420]])
    expected = hashlib.sha256(b"".join(column.tobytes() for column in numbers.T.copy()))
    assert loaded.sha256 == expected.hexdigest()


def test_a_column_is_transformed_once(csv, tmp_path):
    scaled = {"carat": {"lower": 0.0, "upper": 2.0, "scale": True}}
    loaded = fetch(
        TableSpec("stones", target="price", file="stones.csv", columns=scaled, features=("carat",)),
        tmp_path,
        csv,
    )
    assert loaded.data.X[:, 0].tolist() == [-0.5, 0.0, 0.5, 1.0]
    again = Dataset.from_arrays(loaded.data.X, loaded.data.y, loaded.schema)  # as a worker does
    assert again.X.tolist() == loaded.data.X.tolist()
    assert again.features[0].bounds == (-1.0, 1.0)


def test_bounds_may_be_read_or_known(csv, tmp_path):
    known = {"cut": {"categories": ["Good"]}, "price": {"lower": 0.0, "upper": 1000.0}}
    spec = TableSpec("stones", target="price", file="stones.csv", columns=known, bounds="from-data")
    loaded = fetch(spec, tmp_path, csv)
    carat, good = loaded.schema.features
    assert (carat.bounds, good.bounds) == ((0.5, 2.0), (0.0, 1.0))
    assert loaded.schema.target.bounds == (0.0, 1000.0)
    assert loaded.assertions == ("bounds were read from the records, not known beforehand",)
    nothing = TableSpec("stones", target="price", file="stones.csv", features=("carat",))
    assert fetch(nothing, tmp_path, csv).assertions == ()


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (TableSpec("t", target="y", file="none.csv"), "none.csv is not in --data-dir or next to the suite"),
        (TableSpec("t", target="prize", file="stones.csv", features=("carat",)), "did you mean 'price'?"),
        (
            TableSpec("t", target="price", file="stones.csv"),
            "record 1: column 'cut' holds something that is not a number",
        ),
        (TableSpec("t", target="price", file="stones.csv", columns={"x": {}}), "describes column 'x'"),
        (
            TableSpec("t", target="price", file="stones.csv", columns={"carat": {"low": 1}}),
            "column 'carat' of table 't'",
        ),
        (TableSpec("t", openml=1, file="stones.csv"), "the suite must name its target"),
        (TableSpec("t", target="y", file="two.csv"), "has 2 records; a trial needs 3"),
        (TableSpec("t", generator="ones"), "no generator 'ones' is installed"),
        (TableSpec("t", generator="five-ones", options={"row": 5}), "does not accept {'row': 5}"),
        (TableSpec("t", sklearn="load_stones"), "sklearn.datasets has no loader 'load_stones'"),
        (TableSpec("t", sklearn="get_data_home"), "no loader 'get_data_home'"),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_what_cannot_be_had_says_why(csv, tmp_path, spec, message):
    (csv / "two.csv").write_text("x,y\n1,2\n3,4\n")
    with pytest.raises(MissingTable) as caught:
        fetch(spec, tmp_path, csv)
    assert message in str(caught.value)


def test_gaps_need_a_rule_and_leave_bounds_as_they_are(tmp_path):
    (tmp_path / "gaps.csv").write_text("a,b,y\n1,2,3\n,4,5\n5,,7\n3,8,9\n")
    spec = TableSpec("gaps", target="y", file="gaps.csv", bounds="from-data")
    with pytest.raises(MissingTable, match=r"set a rule .* in the suite, under \[tables\.gaps\.columns"):
        fetch(spec, tmp_path)
    ruled = {name: {"missing": "constant", "fill": 4.0} for name in ("a", "b")}
    loaded = fetch(attrs.evolve(spec, columns=ruled), tmp_path)
    assert [column.bounds for column in loaded.schema.features] == [(1.0, 5.0), (2.0, 8.0)]
    assert loaded.data.X.tolist() == [[1, 2], [4, 4], [5, 4], [3, 8]]


def test_a_generated_table_depends_on_the_seed_and_the_name(tmp_path):
    spec = TableSpec("ones", generator="five-ones", options={"rows": 30, "features": 8})
    one, again, other = (fetch(spec, tmp_path, seed=seed) for seed in (1, 1, 2))
    assert one.sha256 == again.sha256 != other.sha256
    renamed = TableSpec("more", generator="five-ones", options=spec.options)
    assert fetch(renamed, tmp_path, seed=1).sha256 != one.sha256
    assert one.data.X.shape == (30, 8)
    made = five_ones(rng=np.random.default_rng(0), rows=30, features=8)
    assert one.relevant == tuple(f"x{j + 1}" for j in made.relevant)


def test_a_table_of_scikit_learn_is_its_own(tmp_path):
    from sklearn.datasets import load_diabetes

    loaded = fetch(TableSpec("diabetes", sklearn="load_diabetes"), tmp_path)
    X, y = load_diabetes(return_X_y=True)
    assert np.array_equal(loaded.data.X, X)
    assert np.array_equal(loaded.data.y, y)
    assert loaded.origin == "scikit-learn load_diabetes"


class OpenML:
    """A server on this machine that answers as the service does, and keeps what it was asked."""

    def __init__(self):
        self.asked, self.answers = [], {}
        self.offer(42, target="price", task=361)

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(handler):
                self.asked.append(handler.path)
                endings = [ending for ending in self.answers if handler.path.endswith("/" + ending)]
                handler.send_response(200 if endings else 412)
                handler.end_headers()
                for ending in endings:
                    handler.wfile.write(self.answers[ending].encode())

            def log_message(handler, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = "http://{}:{}".format(*self.server.server_address)
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def offer(self, number, *, target, task):
        """Offer a table by the number of a data set, whose target is that of a task."""
        arff = ARFF.replace("price", target)
        description = {
            "id": str(number), "name": "stones", "version": "1", "format": "ARFF", "status": "active",
            "description": "Stones",
            "file_id": str(number), "url": f"https://www.openml.org/data/v1/download/{number}/stones.arff",
            "default_target_attribute": "carat", "md5_checksum": hashlib.md5(arff.encode()).hexdigest(),
        }  # fmt: skip
        columns = [("carat", "numeric"), ("cut", "nominal"), (target, "numeric")]
        features = [
            {"index": str(place), "name": name, "data_type": kind, "is_target": "false", "is_ignore": "false",
             "is_row_identifier": "false", "number_of_missing_values": "0"}
            for place, (name, kind) in enumerate(columns)
        ]  # fmt: skip
        qualities = [{"name": "NumberOfInstances", "value": "4.0"}]
        source = {"name": "source_data", "data_set": {"data_set_id": str(number), "target_feature": target}}
        self.answers |= {
            f"json/data/{number}": json.dumps({"data_set_description": description}),
            f"json/data/features/{number}": json.dumps({"data_features": {"feature": features}}),
            f"json/data/qualities/{number}": json.dumps({"data_qualities": {"quality": qualities}}),
            f"data/v1/download/{number}/stones.arff": arff,
            f"json/task/{task}": json.dumps({"task": {"input": [{"name": "other"}, source]}}),
        }

    def stop(self):
        """Take the server off the network."""
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def openml(monkeypatch, tmp_path):
    pytest.importorskip("sklearn")
    service, ask = OpenML(), urllib.request.urlopen

    def urlopen(request, timeout=10):
        url = getattr(request, "full_url", request)
        return ask(service.address + urllib.parse.urlsplit(url).path, timeout=timeout)

    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path / "downloads"))
    monkeypatch.setattr("sklearn.datasets._openml.urlopen", urlopen)
    monkeypatch.setattr(urllib.request, "urlopen", urlopen)
    monkeypatch.setattr("time.sleep", lambda seconds: None)  # scikit-learn tries again
    yield service
    service.stop()


@pytest.mark.parametrize("spec", [{"openml": 42, "target": "price"}, {"openml_task": 361}], ids=str)
def test_openml_is_asked_once(openml, tmp_path, spec):
    table = TableSpec("stones", categories="from-data", **spec)
    loaded = fetch(table, tmp_path)
    assert loaded.data.X.tolist() == ENCODED
    assert loaded.data.y.tolist() == [100, 150, 400, 420]
    asked = len(openml.asked)
    openml.stop()
    assert fetch(table, tmp_path).sha256 == loaded.sha256
    assert len(openml.asked) == asked


@pytest.mark.slow
def test_each_table_of_dpkendall_is_had_by_its_task(openml, tmp_path):
    tables = [table for table in find_suite("dpkendall").tables if table.openml_task]
    for number, table in enumerate(tables, start=1000):
        openml.offer(number, target=table.target or "price", task=table.openml_task)
        loaded = fetch(attrs.evolve(table, categories="from-data"), tmp_path)
        assert loaded.origin == f"OpenML task {table.openml_task}"
        assert loaded.data.X.tolist() == ENCODED
        assert [f"task/{table.openml_task}" in asked for asked in openml.asked].count(True) == 1
    assert len({table.openml_task for table in tables}) == 25


def test_a_task_that_was_half_written_is_asked_for_again(openml, tmp_path):
    table = TableSpec("stones", categories="from-data", openml_task=361)
    loaded = fetch(table, tmp_path)
    (remembered,) = (tmp_path / "downloads").rglob("dpkit-task-361.json")
    remembered.write_text('{"data_set_id": "4')
    assert fetch(table, tmp_path).sha256 == loaded.sha256


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"openml": 42, "target": "price"}, "OpenML data set 42 is not available ("),
        ({"openml_task": 361}, "OpenML task 361 is not available ("),
    ],
    ids=["data set", "task"],
)
def test_no_network_is_a_sentence_with_a_way_out(openml, tmp_path, spec, message):
    openml.stop()
    with pytest.raises(MissingTable) as caught:
        fetch(TableSpec("stones", **spec), tmp_path)
    assert message in str(caught.value)
    assert "Connection refused" in str(caught.value)
    assert "check the network, or give a local file by --data-dir" in str(caught.value)


def test_a_task_that_does_not_exist_is_named(openml, tmp_path):
    with pytest.raises(MissingTable, match="OpenML task 999 is not available"):
        fetch(TableSpec("stones", openml_task=999), tmp_path)


def test_a_local_file_is_preferred_and_nobody_is_asked(openml, csv, tmp_path):
    spec = TableSpec("stones", openml=42, target="price", file="stones.csv", categories="from-data")
    assert locate(spec, None, tmp_path) == "OpenML data set 42"
    assert fetch(spec, tmp_path, csv).origin == "stones.csv"
    assert openml.asked == []
    # The same numbers, so that rows from both go together.
    assert fetch(spec, tmp_path).sha256 == fetch(spec, tmp_path, csv).sha256


def test_a_parquet_file_is_read(tmp_path):
    columns = {"a": [1.0, 2.0, 3.0], "y": [1.0, 0.0, 1.0]}
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    loaded = fetch(TableSpec("t", target="y", file="t.parquet"), tmp_path)
    assert loaded.data.X.tolist() == [[1.0], [2.0], [3.0]]
