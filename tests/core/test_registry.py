"""The registry: found without import, told apart by distribution, loaded alone."""

import json
import re
import shutil
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from dpkit_core.errors import AmbiguousName, BrokenPlugin, IncompatiblePlugin, UnknownName
from dpkit_core.plugins import promises
from dpkit_core.plugins import registry as registry_module
from dpkit_core.plugins.kinds import KINDS, PARTS, ComponentRef, kind_named
from dpkit_core.plugins.promises import PROTOCOLS, departures
from dpkit_core.plugins.registry import Registry
from dpkit_core.protocols import Accountant, Scorer

SCORER = """
class MyScorer:
    api = {api}
    adaptive = False
    def sensitivity(self, schema, round, /): ...
    def prepare(self, data, plan, meter, /): ...
"""


def load(kind, name):
    registry = Registry()
    return registry.load(registry.find(kind, name))


# Finding


def test_the_first_party_parts_are_found_with_their_distributions():
    found = {(ref.kind, ref.qualified) for ref in Registry().refs()}
    assert found >= {
        ("scorers", "dpkit-scorer-kendall:kendall"),
        ("selectors", "dpkit-selector-peel:peel"),
        ("accountants", "dpkit-accountant-basic:basic"),
        ("accountants", "dpkit-accountant-rdp:rdp"),
        ("regressors", "dpkit-regressor-tukey:tukey"),
    }


def test_a_reference_says_what_the_metadata_says(site):
    site.install_zoo("prints")
    assert Registry().find("scorers", "prints") == ComponentRef(
        kind="scorers",
        name="prints",
        target="zoo_prints:ZooScorer",
        distribution="zoo-prints",
        version="0.3",
        summary="Prints while it is imported",
    )


def test_a_distribution_without_summary_has_an_empty_one(site):
    site.install("quiet", entry_points={"dpkit.scorers": {"quiet": "quiet:Scorer"}})
    assert Registry().find("scorer", "quiet").summary == ""


def test_an_entry_point_of_no_distribution_is_of_an_unknown_one():
    ref = Registry([EntryPoint("mine", "my_module:MyScorer", "dpkit.scorers")]).find("scorer", "mine")
    assert (ref.distribution, ref.version, ref.qualified) == ("unknown", "unknown", "unknown:mine")
    assert str(ref) == "scorer 'mine' (unknown unknown)"


@pytest.mark.parametrize("finder", ["standard", "backport"])
def test_damaged_metadata_does_not_hide_the_parts(site, finder):
    if finder == "backport":  # once imported, it finds distributions in place of the standard library
        pytest.importorskip("importlib_metadata")
    site.install("damaged", entry_points={"dpkit.scorers": {"damaged": "damaged:Scorer"}})
    (site.folder / "damaged-1.0.dist-info" / "METADATA").unlink()
    assert Registry().find("scorer", "damaged").distribution == "unknown"


def test_parts_come_by_kind_and_then_by_name_however_they_are_found():
    points = [
        EntryPoint("b", "m:B", "dpkit.scorers"),
        EntryPoint("a", "m:A", "dpkit.regressors"),
        EntryPoint("a", "m:A", "dpkit.scorers"),
        EntryPoint("c", "m:C", "dpkit.selectors"),
    ]
    order = [("scorers", "a"), ("scorers", "b"), ("selectors", "c"), ("regressors", "a")]
    for found in (points, points[::-1]):
        assert [(ref.kind, ref.name) for ref in Registry(found).refs()] == order


def test_a_folder_that_is_searched_twice_offers_its_parts_once(site, monkeypatch):
    site.install_zoo("prints")
    monkeypatch.syspath_prepend(site.folder)
    assert [ref.name for ref in Registry().refs("scorers")].count("prints") == 1
    point = EntryPoint("mine", "m:A", "dpkit.scorers")
    assert len(Registry([point, point]).refs()) == 1


def test_other_groups_are_no_parts():
    points = [EntryPoint("a", "m:A", "dpkit.hooks"), EntryPoint("b", "m:B", "console_scripts")]
    assert Registry(points).refs() == ()


def test_what_is_installed_or_removed_is_seen_by_the_next_registry(site):
    registry = Registry()
    assert "prints" not in {ref.name for ref in registry.refs()}
    site.install_zoo("prints")
    assert "prints" not in {ref.name for ref in registry.refs()}
    assert "prints" in {ref.name for ref in Registry().refs()}
    (info,) = site.folder.glob("*.dist-info")
    shutil.rmtree(info)
    assert "prints" not in {ref.name for ref in Registry().refs()}


def test_what_is_installed_is_read_once(monkeypatch):
    found = Registry().refs(), registry_module.installed("dpkit.commands")
    monkeypatch.setattr("importlib.metadata.entry_points", pytest.fail)
    assert (Registry().refs(), registry_module.installed("dpkit.commands")) == found


@pytest.mark.parametrize("word", ["scorer", "scorers"])
def test_a_kind_may_be_named_by_its_role(word):
    assert kind_named(word).name == "scorer"
    assert Registry().find(word, "kendall").name == "kendall"


def test_an_unknown_kind_is_told_the_kinds():
    with pytest.raises(UnknownName, match="'scorrer'; the kinds are scorers, selectors, regressors, acc"):
        Registry().refs("scorrer")


# Names


@pytest.mark.parametrize(
    "spelling",
    ["dpkit-scorer-kendall:kendall", "dpkit_scorer_kendall:kendall", "DPKit.Scorer-Kendall:kendall"],
)
def test_a_qualified_name_is_found_in_any_spelling_of_its_distribution(spelling):
    assert Registry().find("scorer", spelling).name == "kendall"


def test_two_distributions_with_one_name_are_ambiguous_and_both_spellings_are_told(site):
    site.install_zoo("twin_a", "twin_b")
    with pytest.raises(AmbiguousName) as caught:
        Registry().find("scorer", "twin")
    assert "zoo-twin-a:twin" in str(caught.value)
    assert "zoo-twin-b:twin" in str(caught.value)
    assert Registry().find("scorer", "zoo-twin-b:twin").target == "zoo_twin_b:ZooScorer"


def test_a_third_party_cannot_take_the_name_of_a_first_party_part(site):
    site.install("intruder", entry_points={"dpkit.scorers": {"kendall": "intruder:Scorer"}})
    with pytest.raises(AmbiguousName, match=r"dpkit-scorer-kendall:kendall.*intruder:kendall"):
        Registry().find("scorer", "kendall")


@pytest.mark.parametrize(
    ("kind", "name", "message"),
    [
        (
            "accountant",
            "rdp1",
            r"installed accountants: basic, individual_filter, pld, rdp, tight\. Did you mean 'rdp'\?",
        ),
        ("scorer", "peel", "'peel' is one of the selectors: use it as the selector"),
        ("scorer", "elsewhere:kendall", r"Did you mean dpkit-scorer-kendall:kendall\?"),
        ("scorer", "qqq", r"installed scorers: .*kendall.*Install the distribution that offers it"),
    ],
)
def test_an_unknown_name_is_told_what_is_meant(kind, name, message):
    with pytest.raises(UnknownName, match=message):
        Registry().find(kind, name)


@pytest.mark.parametrize("name", ["tukey", "tuckey"])
def test_a_first_party_part_that_is_missing_comes_with_the_line_that_installs_it(name):
    with pytest.raises(UnknownName, match=r"installed regressors: none.*'CLONE/plugins/regressors/tukey'"):
        Registry([]).find("regressor", name)


def test_the_install_hints_name_the_distributions_that_exist():
    hints = {(role, name) for role in PARTS for name in registry_module.first_party_names(role)}
    installed = {
        (ref.role, ref.name): ref for ref in Registry().refs() if ref.distribution.startswith("dpkit-")
    }
    assert hints == set(installed)
    root = Path(__file__).parents[2]
    for (role, name), ref in installed.items():
        (folder,) = re.findall(r"'CLONE/(\S+)'", registry_module._install(role, name))
        assert f'name = "{ref.distribution}"' in (root / folder / "pyproject.toml").read_text()


# Loading


def test_a_missing_dependency_is_named_and_kept_as_the_cause(site):
    site.install_zoo("missing_dependency")
    with pytest.raises(BrokenPlugin) as caught:
        load("scorer", "missing_dependency")
    message = str(caught.value)
    for fact in (
        "scorer 'missing_dependency'",
        "zoo-missing-dependency 0.3",
        "while importing zoo_missing_dependency",
        "ModuleNotFoundError: No module named 'a_library_that_nobody_has'",
    ):
        assert fact in message
    assert isinstance(caught.value.__cause__, ModuleNotFoundError)


def test_an_attribute_that_is_not_there_is_named(site):
    site.install_zoo("missing_attribute")
    with pytest.raises(BrokenPlugin, match="while looking up OldName in zoo_missing_attribute: AttributeErr"):
        load("scorer", "missing_attribute")


def test_a_part_that_was_set_wrongly_says_what_to_set(site):
    source = "from dpkit_core.errors import InvalidOption as Wrong\nraise Wrong('SPEED is x; set it to 1')"
    site.install(
        "set-wrongly", entry_points={"dpkit.scorers": {"w": "set_wrongly:W"}}, modules={"set_wrongly": source}
    )
    registry = Registry()
    with pytest.raises(BrokenPlugin, match=r"cannot be used: SPEED is x; set it to 1$"):
        registry.load(registry.find("scorer", "w"))


def test_a_part_that_exits_while_imported_does_not_end_the_process(site):
    site.install_zoo("exits")
    with pytest.raises(BrokenPlugin, match="SystemExit: 3") as caught:
        load("scorer", "exits")
    assert isinstance(caught.value.__cause__, SystemExit)


def test_an_interrupt_from_the_keyboard_passes(site):
    points = {"dpkit.scorers": {"interrupts": "interrupts:Scorer"}}
    site.install("interrupts", entry_points=points, modules={"interrupts": "raise KeyboardInterrupt"})
    with pytest.raises(KeyboardInterrupt):
        load("scorer", "interrupts")


def test_what_a_part_prints_while_imported_stays_off_standard_output(site, capsys):
    site.install_zoo("prints")
    assert load("scorer", "prints").__name__ == "ZooScorer"
    out, err = capsys.readouterr()
    assert out == ""
    assert "Thank you" in err


@pytest.mark.parametrize("target", ["no_such_module:Scorer", "json", "not a module:Scorer", ":Scorer", ""])
def test_a_target_that_leads_nowhere_breaks_only_this_part(target):
    ref = ComponentRef("scorers", "lost", target)
    with pytest.raises((BrokenPlugin, IncompatiblePlugin), match="scorer 'lost'"):
        Registry().load(ref)


def test_a_target_that_is_no_class_is_refused():
    with pytest.raises(
        IncompatiblePlugin, match=r"points to json:dumps, a function; .* must point to its class"
    ):
        Registry().load(ComponentRef("scorers", "function", "json:dumps"))


def test_an_extra_after_the_target_is_ignored(site):
    points = {"dpkit.scorers": {"mine": "mine:MyScorer [fast]"}}
    site.install("mine", entry_points=points, modules={"mine": SCORER.format(api=3)})
    assert load("scorer", "mine").__name__ == "MyScorer"


# Plugin API


def test_a_part_of_a_newer_api_is_refused_with_both_sides_and_the_remedy(site):
    site.install_zoo("wrong_api")
    sentence = (
        r"scorer 'wrong_api' \(zoo-wrong-api 0\.3\) targets plugin API 99; this dpkit \S+ accepts 3\. "
        "Upgrade dpkit, or install an older zoo-wrong-api"
    )
    with pytest.raises(IncompatiblePlugin, match=sentence):
        load("scorer", "wrong_api")


@pytest.mark.parametrize(("api", "fits"), [(2, False), (3, True), (4, True), (5, False)])
def test_the_api_window_includes_both_ends(api, fits, site, monkeypatch):
    monkeypatch.setattr(promises, "API", 4)
    monkeypatch.setattr(promises, "API_FLOOR", 3)
    points = {"dpkit.scorers": {"mine": "mine:MyScorer"}}
    site.install("mine", entry_points=points, modules={"mine": SCORER.format(api=api)})
    if fits:
        assert load("scorer", "mine").api == api
    else:
        with pytest.raises(IncompatiblePlugin, match=f"API {api}; .* accepts 3-4. Upgrade"):
            load("scorer", "mine")


@pytest.mark.parametrize("declaration", ["", "api = '1'"])
def test_a_part_that_does_not_state_its_api_is_told_the_line_to_add(declaration, site):
    source = SCORER.replace("api = {api}", declaration)
    site.install("mine", entry_points={"dpkit.scorers": {"mine": "mine:MyScorer"}}, modules={"mine": source})
    with pytest.raises(IncompatiblePlugin, match=r"needs `api: ClassVar\[int\] = 3`"):
        load("scorer", "mine")


# Signatures


def test_every_member_that_departs_from_the_protocol_is_named(site):
    site.install_zoo("wrong_signatures")
    with pytest.raises(IncompatiblePlugin) as caught:
        load("scorer", "wrong_signatures")
    message = str(caught.value)
    assert "is no Scorer" in message
    assert "adaptive is a method and must be a property" in message
    assert "sensitivity(schema) cannot be called as sensitivity(facts, round_index)" in message
    assert "prepare(X, y) cannot be called as prepare(data, plan, meter)" in message


def test_an_optional_method_with_another_signature_is_refused(site):
    source = SCORER.format(api=3) + "    def plan(self): ...\n"
    site.install("mine", entry_points={"dpkit.scorers": {"mine": "mine:MyScorer"}}, modules={"mine": source})
    with pytest.raises(IncompatiblePlugin, match=r"called as plan\(request\)"):
        load("scorer", "mine")


class Fitting:
    adaptive = True

    def sensitivity(self, schema, round): ...

    def prepare(self, data, plan, meter): ...


def scorer(**members):
    return type("Mine", (Fitting,), members)


class Computed(Fitting):
    @property
    def adaptive(self): ...


class Annotated:
    adaptive: bool

    sensitivity = Fitting.sensitivity
    prepare = Fitting.prepare


class Inheriting(Scorer):
    def prepare(self, data, plan, meter, /): ...


@pytest.mark.parametrize(
    ("cls", "expected"),
    [
        (Fitting, ()),
        (Computed, ()),
        (Annotated, ()),
        (scorer(prepare=lambda self, table, plan, meter, extra=None: ...), ()),
        (scorer(prepare=lambda self, *tables: ...), ()),
        (scorer(prepare=staticmethod(lambda data, plan, meter: ...)), ()),
        (scorer(prepare=classmethod(lambda cls, data, plan, meter: ...)), ()),
        (scorer(prepare=None), ("prepare is a NoneType and must be a method",)),
        (
            type("Mine", (), {"adaptive": None, "prepare": Fitting.prepare}),
            ("method sensitivity(facts, round_index) is missing",),
        ),
        (scorer(prepare=3), ("prepare is a int and must be a method",)),
        (
            scorer(prepare=lambda self: ...),
            ("method prepare() cannot be called as prepare(data, plan, meter)",),
        ),
        (
            scorer(prepare=lambda self, data, plan, meter, *, rng: ...),
            ("method prepare(data, plan, meter, rng) cannot be called as prepare(data, plan, meter)",),
        ),
        (
            scorer(prepare=staticmethod(lambda self, data, plan, meter: ...)),
            ("method prepare(self, data, plan, meter) cannot be called as prepare(data, plan, meter)",),
        ),
        (
            Inheriting,
            (
                "method sensitivity(facts, round_index) is missing",
                "property adaptive is missing",
            ),
        ),
    ],
)
def test_a_class_is_compared_with_the_scorer_protocol_by_calls(cls, expected):
    assert tuple(departures(cls, Scorer)) == expected


def test_an_optional_argument_of_the_protocol_must_be_optional_in_the_part():
    def accountant(compose):
        members = {name: lambda self, value: ... for name in ("supports", "epsilon", "delta")}
        return type("Mine", (), {**members, "neighboring": None, "compose": compose})

    assert not list(departures(accountant(lambda self, event, count=1: ...), Accountant))
    for compose in (lambda self, event: ..., lambda self, event, count: ...):
        (fault,) = departures(accountant(compose), Accountant)
        assert fault.endswith("cannot be called as compose(event, count)")


# Provenance


def test_provenance_finds_the_distribution_of_a_class_and_of_an_instance(site):
    site.install_zoo("prints", "twin_a", "twin_b")
    registry = Registry()
    for name in ("zoo-prints:prints", "zoo-twin-b:twin"):
        ref = registry.find("scorer", name)
        cls = registry.load(ref)
        assert registry.provenance(cls, "scorer") == ref
        assert registry.provenance(cls(), "scorers") == ref


def test_a_class_in_an_inner_module_of_its_package_is_found():
    cls = type("MyScorer", (), {"__module__": "my_package.inner.module"})
    registry = Registry([EntryPoint("mine", "my_package:MyScorer", "dpkit.scorers")])
    assert registry.provenance(cls, "scorer") == registry.find("scorer", "mine")


@pytest.mark.parametrize(("module", "name"), [("elsewhere", "MyScorer"), ("my_package", "Other")])
def test_a_class_that_nobody_offers_has_no_provenance(module, name):
    cls = type(name, (), {"__module__": module})
    registry = Registry([EntryPoint("mine", "my_package:MyScorer", "dpkit.scorers")])
    assert registry.provenance(cls, "scorer") is None
    assert registry.provenance(cls, "selector") is None


def test_a_class_that_two_distributions_offer_has_no_provenance(site):
    for name in ("one", "two"):
        site.install(name, entry_points={"dpkit.scorers": {name: "shared:MyScorer"}})
    cls = type("MyScorer", (), {"__module__": "shared"})
    assert Registry().provenance(cls, "scorer") is None


# Import cost

LISTING = """
import json, sys
import dpkit_core
from dpkit_core.plugins.registry import Registry
names = [ref.name for ref in Registry().refs()]
loaded = sorted({name.partition(".")[0] for name in sys.modules})
print(json.dumps({"names": names, "loaded": loaded}))
"""


def test_listing_imports_no_library_and_no_plugin():
    done = subprocess.run([sys.executable, "-c", LISTING], capture_output=True, text=True, check=True)
    listed = json.loads(done.stdout)
    assert "kendall" in listed["names"]
    plugins = {name for name in listed["loaded"] if name.startswith("dpkit_")}
    assert plugins == {"dpkit_core"}
    heavy = {"numpy", "scipy", "typer", "rich", "pluggy", "pyarrow", "randomgen"}
    assert not heavy & set(listed["loaded"])


def test_each_kind_of_part_has_a_protocol():
    assert set(PROTOCOLS) == set(PARTS)


def test_kinds_differ_in_all_of_their_names():
    assert len({name for kind in KINDS for name in (kind.name, kind.group)}) == 2 * len(KINDS)


def test_libraries_are_those_of_dpkit_that_a_distribution_requires_at_any_depth():
    found = registry_module.libraries_of("dpkit-regressor-sgbdt")
    assert {"dpkit-fences", "dpkit-model-trees", "dpkit-kernels", "dpkit-model-lines"} == found.keys()
    assert registry_module.libraries_of("dpkit-selector-peel") == {}
    assert registry_module.libraries_of("not-installed") == registry_module.libraries_of("") == {}
