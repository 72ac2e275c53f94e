"""Settings: what is written comes back, and what cannot work is said all at once."""

import tomllib
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwise.errors import SettingsError
from headwise.settings import (
    Renamed,
    as_table,
    as_toml,
    changed_by,
    differences,
    read,
    read_toml,
    with_new_names,
    with_overrides,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Corpus:
    """A table that may stand in a list."""

    source: str
    weight: float = 1.0

    def __post_init__(self) -> None:
        if self.weight < 0:
            raise SettingsError([f"weight must be 0 or more, not {self.weight}"])


@dataclass(frozen=True, kw_only=True, slots=True)
class Optimizer:
    """A table inside another, which checks itself."""

    note: ClassVar[str] = "no setting"

    steps: int = 100
    rate: float = 1e-9
    clip: float | None = 1.0
    kind: Literal["adam", "none"] = "adam"

    def __post_init__(self) -> None:
        problems = []
        if self.steps < 1:
            problems.append(f"steps must be 1 or more, not {self.steps}")
        if self.rate < 0:
            problems.append(f"rate must be 0 or more, not {self.rate}")
        if problems:
            raise SettingsError(problems)


@dataclass(frozen=True, kw_only=True, slots=True)
class Recipe:
    """Every type that a setting may have."""

    seed: int = 1
    name: str = "a"
    bf16: bool = False
    scale: float = 0.5
    level: Literal[1, 2] = 1
    limit: int | None = None
    words: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()
    gaps: tuple[float | None, ...] = ()
    training: Optimizer = field(default_factory=Optimizer)
    dev: Corpus | None = None
    corpora: tuple[Corpus, ...] = ()


TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
NUMBERS = st.floats(allow_nan=False)
POSITIVE = st.floats(min_value=0, allow_nan=False)
CORPORA = st.builds(Corpus, source=TEXTS, weight=POSITIVE)
RECIPES = st.builds(
    Recipe,
    seed=st.integers(),
    name=TEXTS,
    bf16=st.booleans(),
    scale=NUMBERS,
    level=st.sampled_from([1, 2]),
    limit=st.none() | st.integers(),
    words=st.lists(TEXTS).map(tuple),
    sizes=st.lists(st.integers()).map(tuple),
    gaps=st.lists(st.none() | NUMBERS).map(tuple),
    training=st.builds(
        Optimizer,
        steps=st.integers(min_value=1),
        rate=POSITIVE,
        clip=st.none() | NUMBERS,
        kind=st.sampled_from(["adam", "none"]),
    ),
    dev=st.none() | CORPORA,
    corpora=st.lists(CORPORA, max_size=3).map(tuple),
)


def problems_of(table: dict[str, object]) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        read(Recipe, table)
    return caught.value.problems


@given(RECIPES)
def test_settings_survive_toml(recipe):
    assert read(Recipe, tomllib.loads(as_toml(recipe))) == recipe


@given(RECIPES)
def test_settings_survive_a_table(recipe):
    assert read(Recipe, as_table(recipe)) == recipe


@given(RECIPES)
def test_the_table_and_the_file_say_the_same(recipe):
    assert tomllib.loads(as_toml(recipe)) == as_table(recipe)


@pytest.mark.parametrize(
    "text",
    [
        "\0",
        "\x7f",
        "\x85",
        "\u2028",
        "\ufeff",
        '"""',
        "\\",
        "a\r\nb",
        "\t",
        "'",
        "😀",
        "",
    ],
)
def test_odd_characters_come_back(text):
    recipe = Recipe(name=text, words=(text, text))
    assert read(Recipe, tomllib.loads(as_toml(recipe))) == recipe


def test_the_file_spells_every_default_out():
    assert as_toml(Recipe(corpora=(Corpus(source="a.en"),))) == (
        "seed = 1\n"
        'name = "a"\n'
        "bf16 = false\n"
        "scale = 0.5\n"
        "level = 1\n"
        "# limit is not set\n"
        "words = []\n"
        "sizes = []\n"
        "gaps = []\n"
        "# dev is not set\n"
        "\n"
        "[training]\n"
        "steps = 100\n"
        "rate = 1e-09\n"
        "clip = 1.0\n"
        'kind = "adam"\n'
        "\n"
        "[[corpora]]\n"
        'source = "a.en"\n'
        "weight = 1.0\n"
    )


def test_none_in_place_of_another_default_comes_back():
    """Left out of the file, it used to come back as the default."""
    recipe = Recipe(training=Optimizer(clip=None))

    assert 'clip = "none"' in as_toml(recipe)
    assert read(Recipe, tomllib.loads(as_toml(recipe))).training.clip is None


def test_a_whole_number_will_do_where_a_fraction_is_wanted():
    scale = read(Recipe, {"scale": 2}).scale
    assert (scale, type(scale)) == (2.0, float)


def test_a_change_keeps_all_other_values():
    before = Recipe(seed=3, training=Optimizer(steps=7, kind="none"))

    after = changed_by(before, {"training": {"steps": 8}})

    assert after == Recipe(seed=3, training=Optimizer(steps=8, kind="none"))
    with pytest.raises(SettingsError, match=r"training\.steps must be 1 or more"):
        changed_by(before, {"training": {"steps": 0}})


def test_differences_have_their_place_and_both_values():
    old = Recipe(limit=5, corpora=(Corpus(source="a"), Corpus(source="b")))
    new = Recipe(
        seed=2,
        training=Optimizer(steps=8),
        corpora=(Corpus(source="a"), Corpus(source="c", weight=2.0), Corpus(source="")),
    )

    assert set(differences(as_table(old), as_table(new))) == {
        ("seed", 1, 2),
        ("limit", 5, None),
        ("training.steps", 100, 8),
        ("corpora.1.source", "b", "c"),
        ("corpora.1.weight", 1.0, 2.0),
        ("corpora.2.source", None, ""),
        ("corpora.2.weight", None, 1.0),
    }


@given(RECIPES, RECIPES)
def test_there_are_differences_if_and_only_if_settings_differ(one, other):
    found = [*differences(as_table(one), as_table(other))]
    assert bool(found) == (as_table(one) != as_table(other))
    assert not [*differences(as_table(one), as_table(one))]


def test_all_problems_are_listed_with_their_place():
    table = {
        "sed": 3,
        "bf16": 1,
        "sizes": [1, "two", 3, 4.5],
        "training": {"stesp": 4, "rate": "fast", "kind": "sgd"},
        "corpora": [{"weight": 1.0}, {"source": "b", "weight": -1}, 7],
        "dev": "dev.en",
    }
    assert problems_of(table) == [
        "sed is not a setting; did you mean seed?",
        "bf16 must be true or false, not 1",
        "sizes[1] must be a whole number, not 'two'",
        "sizes[3] must be a whole number, not 4.5",
        "training.stesp is not a setting; did you mean training.steps?",
        "training.rate must be a number, not 'fast'",
        "training.kind must be 'adam' or 'none', not 'sgd'",
        "dev must be a table, not 'dev.en'",
        "corpora[0].source is missing and has no default",
        "corpora[1].weight must be 0 or more, not -1.0",
        "corpora[2] must be a table, not 7",
    ]


def test_what_a_dataclass_finds_itself_is_listed_with_its_place_too():
    assert problems_of({"training": {"steps": 0, "rate": -1.0}}) == [
        "training.steps must be 1 or more, not 0",
        "training.rate must be 0 or more, not -1.0",
    ]


def test_a_name_like_no_other_gets_the_list_of_names():
    (problem,) = problems_of({"dev": {"source": "a", "zzz": 1}})
    assert problem == "dev.zzz is not a setting; choose from source, weight"


def test_a_constant_of_the_class_is_not_a_setting():
    (problem,) = problems_of({"training": {"note": "mine"}})
    assert problem.startswith("training.note is not a setting")


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("seed", True, "a whole number"),
        ("seed", 1.0, "a whole number"),
        ("scale", False, "a number"),
        ("level", True, "1 or 2"),
        ("level", 3, "1 or 2"),
        ("name", 5, "a string in quotes"),
        ("words", "ab", "a list"),
        ("training", [], "a table"),
        ("limit", "many", "a whole number"),
    ],
)
def test_a_value_of_another_kind_is_refused(name, value, wanted):
    (problem,) = problems_of({name: value})
    assert problem.startswith(f"{name} must be {wanted}")
    assert problem.endswith(f"not {value!r}")


def test_a_number_beyond_all_floats_is_a_problem_and_no_crash():
    (problem,) = problems_of({"scale": 10**400})
    assert problem.startswith("scale is too large: 1,329 bits")


@pytest.mark.parametrize("name", ["scale", "seed", "level", "name", "words"])
def test_a_number_that_python_does_not_print_is_a_problem_and_no_crash(name):
    """A hexadecimal one in a recipe: the message itself raised a ValueError."""
    (problem,) = problems_of({name: 16**5000})
    assert problem == f"{name} is too large: 20,001 bits"


def test_text_that_no_file_could_hold_is_refused():
    """A file name in another encoding reaches us with lone surrogates in it."""
    (problem,) = problems_of({"name": "caf\udce9"})
    assert problem == r"name must be text in UTF-8, not 'caf\udce9'"


def test_a_ready_dataclass_is_taken_as_it_is():
    corpus = Corpus(source="a")
    assert read(Recipe, {"dev": corpus, "corpora": [corpus]}).corpora == (corpus,)


def test_a_ready_dataclass_of_another_kind_is_refused():
    (problem,) = problems_of({"dev": Optimizer()})
    assert problem.startswith("dev must be a table")


@pytest.mark.parametrize(
    ("assignment", "value"),
    [
        ("x=60", 60),
        ("x = 60 ", 60),
        ("x=1e-9", 1e-9),
        ("x=true", True),
        ("x=words", "words"),
        ('x="60"', "60"),
        ("x='a b'", "a b"),
        ("x=a b", "a b"),
        ("x=", ""),
        ("x==", "="),
        ("x=none", "none"),
        ("x=[1, 2]", [1, 2]),
        ("x=['>>fr<<', '>>de<<']", [">>fr<<", ">>de<<"]),
        ("x={ y = 1 }", {"y": 1}),
        ("x=../a.en", "../a.en"),
        ("x=2024-01-01", "2024-01-01"),
        ("x=10:30:00", "10:30:00"),
        ("x=1#2", "1#2"),
        ("x=1\ny=2", "1\ny=2"),
        ("x=1, y = 2", "1, y = 2"),
        ("x=1 }\ny = { z = 2", "1 }\ny = { z = 2"),
        ("x=" + "[" * 100_000, "[" * 100_000),
        ("x=" + "9" * 5_000, "9" * 5_000),
    ],
    ids=lambda part: repr(part)[:30],
)
def test_an_assignment_is_a_toml_value_or_else_plain_text(assignment, value):
    assert with_overrides({}, [assignment]) == {"x": value}


def test_assignments_reach_into_tables_and_the_last_one_wins():
    table = {"training": {"steps": 1, "rate": 0.1}}

    changed = with_overrides(
        table, ["training.steps=2", "training . steps=3", "dev.source=a"]
    )

    assert changed == {"training": {"steps": 3, "rate": 0.1}, "dev": {"source": "a"}}
    assert table == {"training": {"steps": 1, "rate": 0.1}}


def test_none_takes_an_optional_setting_away():
    table = with_overrides({"limit": 3}, ["limit=none", "training.clip=none"])
    recipe = read(Recipe, table)

    assert recipe.limit is None
    assert recipe.training.clip is None


def test_none_stays_a_word_where_it_is_one_of_the_choices():
    """It used to take the line away, so that the default came instead."""
    table = with_overrides({}, ["training.kind=none"])
    assert read(Recipe, table).training.kind == "none"


def test_assignments_that_cannot_be_read_are_all_listed():
    with pytest.raises(SettingsError) as caught:
        with_overrides({"seed": 1}, ["steps", "a..b=1", "=1", "seed.deep=1", "seed=2"])

    assert [problem[:40] for problem in caught.value.problems] == [
        "--set takes NAME=VALUE, such as training",
        "--set takes NAME=VALUE, such as training",
        "--set takes NAME=VALUE, such as training",
        "--set seed.deep=1: seed is 1, not a tabl",
    ]


def test_a_toml_file_is_read_with_or_without_a_byte_order_mark(tmp_path):
    for mark in (b"", b"\xef\xbb\xbf"):
        (tmp_path / "recipe.toml").write_bytes(mark + b"seed = 2\r\n")
        assert read_toml(tmp_path / "recipe.toml") == {"seed": 2}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"seed = \n", "line 1, column 8"),
        (b"seed = 1\nseed = 2\n", "line 2"),
        (b"name = 'caf\xe9'\n", "byte 11 is not UTF-8"),
        (b"x = " + b"[" * 100_000, "is not valid TOML"),
        (b"x = " + b"9" * 5_000, "is not valid TOML"),
    ],
    ids=["no value", "twice", "latin-1", "deep", "long"],
)
def test_a_file_that_is_not_toml_is_a_problem_with_its_place(tmp_path, content, reason):
    path = tmp_path / "recipe.toml"
    path.write_bytes(content)
    with pytest.raises(SettingsError, match=reason) as caught:
        read_toml(path)
    assert str(path) in str(caught.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(SettingsError, match=r"recipe\.toml cannot be read: No such"):
        read_toml(tmp_path / "recipe.toml")


@dataclass(frozen=True, kw_only=True, slots=True)
class Engine:
    """A table of which a setting and its values had other names once."""

    RENAMED: ClassVar = {"kernels": Renamed("backend", {"eager": "torch"})}

    backend: Literal["auto", "torch"] = "auto"


@dataclass(frozen=True, kw_only=True, slots=True)
class Machine:
    """What holds such a table."""

    engine: Engine = field(default_factory=Engine)


def test_a_setting_is_known_by_the_name_that_it_once_had():
    table = {"engine": {"kernels": "eager"}}

    assert read(Machine, table) == Machine(engine=Engine(backend="torch"))
    assert with_new_names(Machine, table) == (
        {"engine": {"backend": "torch"}},
        ["engine.kernels = 'eager' is now called engine.backend = 'torch'"],
    )
    assert table == {"engine": {"kernels": "eager"}}


def test_of_both_names_the_later_one_counts():
    """A file may have one, and the command line, which comes later, the other."""
    by_file = {"engine": {"backend": "auto"}}
    typed = with_overrides(by_file, ["engine.kernels=eager"])
    assert read(Machine, typed).engine.backend == "torch"

    by_file = {"engine": {"kernels": "eager"}}
    typed = with_overrides(by_file, ["engine.backend=auto"])
    assert read(Machine, typed).engine.backend == "auto"


def test_a_value_that_never_was_one_is_refused_by_the_new_name():
    with pytest.raises(SettingsError, match=r"engine\.backend must be .*, not 'fats'"):
        read(Machine, {"engine": {"kernels": "fats"}})
    with pytest.raises(SettingsError, match=r"engine\.backend must be .*, not \[1\]"):
        read(Machine, {"engine": {"kernels": [1]}})
