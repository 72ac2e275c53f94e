"""A recipe is put together in a fixed order, and written down it is the same again."""

from pathlib import Path

import pytest

from headwise.errors import SettingsError
from headwise.model.presets import PRESETS
from headwise.recipe import Recipe, resolve
from headwise.recipe.preset_training import preset_for, words_of
from headwise.settings import as_table, as_toml, merged

RECIPES = sorted((Path(__file__).parents[1] / "recipes").glob("**/*.toml"))


@pytest.fixture
def write(tmp_path):
    def make(text):
        path = tmp_path / "my.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return make


def problems(**how):
    with pytest.raises(SettingsError) as caught:
        resolve(**how)
    return caught.value.problems


def test_the_default_recipe_is_the_papers_base_model():
    recipe = resolve()

    assert recipe == Recipe()
    assert recipe.model == PRESETS["base"].config
    assert recipe.training.batch_tokens == 25_000


def test_later_assignments_override_earlier_ones(write):
    """Default 100,000; preset tiny 20,000; file 300; a command line 40; --set 5."""
    file = write("[training]\nsteps = 300\n")
    extra = {"training": {"steps": 40}}

    def steps(**how):
        return resolve(**how).training.steps

    assert steps() == 100_000
    assert steps(preset="tiny") == 20_000
    assert steps(preset="tiny", file=file) == 300
    assert steps(preset="tiny", file=file, extra=extra) == 40
    assignments = ["training.steps=6", "training.steps=5"]
    assert steps(preset="tiny", file=file, extra=extra, assignments=assignments) == 5


def test_unset_settings_come_from_the_preset(write):
    file = write("[training]\nsteps = 300\n[model]\nd_ff = 512\n")
    recipe = resolve(preset="tiny", file=file)
    tiny = resolve(preset="tiny")

    assert recipe.model.d_ff == 512
    assert recipe.model.d_model == tiny.model.d_model == 128
    assert recipe.training.warmup_steps == tiny.training.warmup_steps


def test_a_file_may_name_its_preset_and_a_command_line_another(write):
    file = write('preset = "tiny"\nseed = 7\n')

    assert resolve(file=file).model == PRESETS["tiny"].config
    assert resolve(file=file).seed == 7
    assert resolve(file=file, preset="small").model == PRESETS["small"].config


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_resolves_and_is_written_and_read_back_equal(name, write):
    recipe = resolve(preset=name)

    assert recipe.model == PRESETS[name].config
    assert recipe.training.label_smoothing == PRESETS[name].label_smoothing
    assert resolve(file=write(as_toml(recipe))) == recipe


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.name)
def test_every_recipe_that_is_shipped_resolves(path, write):
    recipe = resolve(file=path)

    assert resolve(file=write(as_toml(recipe))) == recipe


def test_sections_5_and_6_stand_in_the_presets():
    """Base: 100,000 updates and a mean of 5; big: 300,000 and a mean of 20."""
    base, big = resolve(preset="base").training, resolve(preset="big").training

    assert (base.steps, base.average_last) == (100_000, 5)
    assert (big.steps, big.average_last) == (300_000, 20)
    assert resolve(preset="base").text.vocab_size == 37_000


def test_a_written_recipe_spells_every_default_out(write):
    text = as_toml(resolve(preset="tiny"))

    for line in ("seed = 1", "adam_beta2 = 0.98", 'norm = "post"', "beam = 4"):
        assert line in text.splitlines()
    assert "# max_minutes is not set" in text


def test_corpora_come_from_a_file(write):
    file = write(
        """
        [[data.corpora]]
        source = "a.en"
        target = "a.de"

        [[data.corpora]]
        source = "b.tsv"
        weight = 0.5
        """
    )
    recipe = resolve(file=file)

    assert [corpus.source for corpus in recipe.data.corpora] == ["a.en", "b.tsv"]
    assert recipe.data.corpora[1].weight == 0.5
    assert resolve(file=write(as_toml(recipe))) == recipe


def test_an_unknown_preset_is_answered_with_those_that_are_known():
    (problem,) = problems(preset="huge")

    assert problem.startswith(
        "'huge' is not a preset; choose from base, big, classifier, g2p, "
    )


@pytest.mark.parametrize("name", ["3", "[1]", '""', "{ a = 1 }"])
def test_a_preset_in_a_file_is_a_name(write, name):
    (problem,) = problems(file=write(f"preset = {name}"))

    assert "preset" in problem


def test_all_problems_of_all_parts_come_at_once(write):
    file = write("sed = 3\n[model]\nd_model = 7\n[training]\nsteps = 0\n")
    found = problems(file=file, assignments=["text.tokenizer=morse", "beem=3"])

    assert "sed is not a setting; did you mean seed?" in found
    assert any(each.startswith("beem is not a setting") for each in found)
    assert any(each.startswith("training.steps must be 1 or more") for each in found)
    assert any(each.startswith("model.d_model must divide evenly") for each in found)
    assert any(each.startswith("text.tokenizer must be") for each in found)


@pytest.mark.parametrize(
    ("assignment", "said"),
    [
        ("training.steps=abc", "training.steps must be a whole number, not 'abc'"),
        ("training.steps=1.5", "training.steps must be a whole number, not 1.5"),
        ("model=3", "model must be a table, not 3"),
        ("data.corpora=a.en", "data.corpora must be a list in [ ], not 'a.en'"),
        ("seed=-1", "seed must be from 0 to 9223372036854775807, not -1"),
        ("seed=9223372036854775808", "not 9223372036854775808"),
        (
            "training.processes=1025",
            "training.processes must be at most 1,024, not 1,025",
        ),
        (
            "decoding.warnings.loop_tokens=1" + 400 * "0",
            "decoding.warnings.loop_tokens is too large: 1,329 bits",
        ),
        ("training", "--set takes NAME=VALUE"),
        ("=3", "--set takes NAME=VALUE"),
    ],
)
def test_invalid_settings_are_refused_with_advice(assignment, said):
    assert any(said in each for each in problems(assignments=[assignment]))


def integers(table, path=""):
    """Yield the path of each whole number of nested settings."""
    for name, value in table.items():
        if isinstance(value, dict):
            yield from integers(value, f"{path}{name}.")
        elif type(value) is int:
            yield f"{path}{name}"


OPTIONAL_INTEGERS = [
    *("text.target_vocab_size", "data.dev_pairs", "training.batch_pairs"),
    *("training.epochs", "training.patience", "training.processes"),
    *("model.d_k", "model.attention_window"),
]


UNBOUNDED = ("decoding.seed",)
BOUND_BY_OTHERS = ("model.num_heads", "model.kernel_size")


@pytest.mark.parametrize(
    "name",
    sorted(
        {*integers(as_table(Recipe())), *OPTIONAL_INTEGERS}.difference(
            UNBOUNDED, BOUND_BY_OTHERS
        )
    ),
)
def test_every_whole_number_has_a_maximum(name):
    """Larger ones overflow in libraries, far from where they were set."""
    value = 10**20
    found = problems(assignments=["text.joint=false", f"{name}={value}"])

    assert any(
        each.startswith(f"{name} must be ") and str(value) in each.replace(",", "")
        for each in found
    )


def test_one_embedding_for_two_vocabularies_is_refused_with_the_way_out():
    (problem,) = problems(assignments=["text.joint=false"])

    assert "model.tie_embeddings = 'all' needs one vocabulary" in problem
    assert "'output' or 'none'" in problem
    resolve(assignments=["text.joint=false", "model.tie_embeddings=output"])


@pytest.mark.parametrize("stack", ["encoder", "decoder"])
def test_translation_needs_an_encoder_and_a_decoder(stack):
    assert problems(assignments=[f"model.{stack}_layers=0"]) == [
        f"model.{stack}_layers must be 1 or more, not 0"
    ]


def test_a_learned_table_must_reach_as_far_as_the_longest_output():
    """Twice 256 and 10 more: a table of 300 was enough to learn and not to search."""
    short = ["model.positions=learned", "model.max_positions=521"]
    (found,) = problems(assignments=short)

    assert "model.max_positions must be at least 522, not 521" in found
    resolve(assignments=["model.positions=learned", "model.max_positions=522"])


@pytest.mark.parametrize(
    ("text", "said"),
    [("[model", "is not valid TOML"), ("[model]\nd_model = \n", "line 2")],
)
def test_a_file_that_is_no_toml_is_named_with_the_line(write, text, said):
    (problem,) = problems(file=write(text))

    assert "my.toml" in problem
    assert said in problem


def test_a_file_that_is_not_there_is_named(tmp_path):
    assert "nowhere.toml cannot be read" in problems(file=tmp_path / "nowhere.toml")[0]
    assert str(tmp_path) in problems(file=tmp_path)[0]


def test_as_many_pairs_as_a_preset_can_use():
    fewest = {
        "micro": 1,
        "tiny": 3_000,
        "tiny-low-dropout": 50_000,
        "small": 200_000,
        "base": 2_000_000,
    }
    chosen = [preset_for(size) for size in fewest.values()]

    assert chosen == [*fewest]
    assert [preset_for(size - 1) for size in fewest.values()] == ["micro", *chosen[:-1]]
    assert all(name in PRESETS for name in chosen)
    assert preset_for(9_999, "captioning") == "micro"
    assert preset_for(10_000, "captioning") == "tiny"
    assert preset_for(199_999, "captioning") == "tiny"


@pytest.mark.parametrize(
    ("task", "preset"),
    [
        ("classification", "classifier"),
        ("regression", "classifier"),
        ("tagging", "tagger"),
        ("language_model", "language-model"),
        ("parsing", "parser"),
    ],
)
def test_texts_with_labels_or_numbers_have_presets_of_their_own(task, preset):
    assert preset_for(1, task) == preset_for(199_999, task) == preset
    assert preset_for(200_000, task) == "small"


@pytest.mark.parametrize(
    ("words", "preset"), [("symbols", "g2p"), ("characters", "transducer")]
)
def test_single_words_have_presets_of_their_own(words, preset):
    assert preset_for(1, words=words) == preset_for(199_999, words=words) == preset
    assert preset_for(200_000, words=words) == "small"
    assert preset_for(500, "captioning", words) == "micro"
    assert words_of(as_table(resolve(preset=preset).text)) == words


def test_the_tokenizers_of_texts_are_for_no_single_words():
    for preset in ("tiny", "classifier"):
        assert words_of(as_table(resolve(preset=preset).text)) is None
    spelled = ["text.tokenizer=characters", "text.joint=false"]
    recipe = resolve(preset="tiny", assignments=[*spelled, "model.tie_embeddings=none"])
    assert words_of(as_table(recipe.text)) is None


def test_merging_leaves_both_tables_as_they_were():
    below, above = {"a": {"b": 1, "c": 2}}, {"a": {"b": 3}, "d": [1]}

    assert merged(below, above) == {"a": {"b": 3, "c": 2}, "d": [1]}
    assert (below, above) == ({"a": {"b": 1, "c": 2}}, {"a": {"b": 3}, "d": [1]})


def test_what_a_card_says_of_languages_and_licence_has_a_form():
    recipe = resolve(
        assignments=['languages=["en","nob"]', "license='cc-by-4.0'"], preset="tiny"
    )
    assert (recipe.languages, recipe.license) == (("en", "nob"), "cc-by-4.0")

    with pytest.raises(SettingsError) as error:
        resolve(assignments=['languages=["English"]', "license='CC BY'"])
    assert "not 'English'" in str(error.value)
    assert "such as 'cc-by-4.0'" in str(error.value)


def test_a_head_that_the_model_lacks_is_refused_before_it_is_trained():
    with pytest.raises(SettingsError, match=r"decoding\.alignment_head = '6:0', but"):
        resolve(assignments=["decoding.alignment_head=6:0"])
    assert resolve(assignments=["decoding.alignment_head=5:0"])


def test_what_settings_of_old_names_are_called_now_is_said(write):
    file = write('seed = 3\n[training]\nkernels = "eager"\nsteps = 5\n')
    said = []

    recipe = resolve(
        file=file, assignments=["training.clip_norm=1.0"], on_message=said.append
    )

    assert said == [
        "training.kernels = 'eager' is now called training.backend = 'torch'"
    ]
    assert recipe.training.backend == "torch"


def test_torch_compile_trains_translation_only():
    with pytest.raises(SettingsError, match="torch_compile' is for task"):
        resolve(extra={"task": "tagging", "training": {"backend": "torch_compile"}})


DRAWN = {
    "bpe_dropout": "training.bpe_dropout=0.1",
    "unigram_alpha": "training.unigram_alpha=0.2",
    "source_noise": "training.source_noise.typos=0.1",
}


@pytest.mark.parametrize("name", DRAWN)
@pytest.mark.parametrize("task", ["tagging", "language_model", "parsing", "dialogue"])
def test_texts_are_drawn_for_tasks_over_pairs_of_texts(task, name):
    found = problems(assignments=[f"task={task}", DRAWN[name]])

    assert [
        each for each in found if each.startswith(f"training.{name} is for task = ")
    ]
    assert "'translation', 'classification', 'regression'" in found[0]


@pytest.mark.parametrize("kind", ["words", "characters", "spaces", "unigram"])
def test_bpe_dropout_needs_bpe(kind):
    (problem,) = problems(assignments=[f"text.tokenizer={kind}", DRAWN["bpe_dropout"]])

    assert problem == (
        "training.bpe_dropout samples a tokenizer of kind 'bpe'; there is "
        f"{kind!r} for the source and {kind!r} for the target: leave it out, or "
        "prepare the text with text.tokenizer = 'bpe'"
    )


def test_unigram_sampling_needs_unigram():
    (problem,) = problems(assignments=[DRAWN["unigram_alpha"]])

    assert "training.unigram_alpha samples a tokenizer of kind 'unigram';" in problem
    resolve(assignments=["text.tokenizer=unigram", DRAWN["unigram_alpha"]])


def test_the_side_that_is_to_be_sampled_must_have_such_a_tokenizer():
    apart = [
        *("text.joint=false", "model.tie_embeddings=output"),
        *("text.target_tokenizer=words", DRAWN["bpe_dropout"]),
    ]
    resolve(assignments=apart)
    resolve(assignments=[*apart, "training.sampled_sides=source"])
    (problem,) = problems(assignments=[*apart, "training.sampled_sides=target"])
    assert "; there is 'words' for the target: " in problem


@pytest.mark.parametrize("kind", ["words", "spaces"])
def test_noise_needs_a_tokenizer_that_knows_changed_words(kind):
    (problem,) = problems(assignments=[f"text.tokenizer={kind}", DRAWN["source_noise"]])

    assert "training.source_noise needs text.tokenizer = 'bpe', 'unigram'" in problem


def test_noise_is_a_table_that_is_written_and_read_back(write):
    recipe = resolve(
        assignments=["training.source_noise.upper_case=0.1", DRAWN["source_noise"]]
    )
    again = resolve(file=write(as_toml(recipe)))

    assert again == recipe
    assert again.training.source_noise.upper_case == 0.1
    found = problems(assignments=["training.source_noise.typo=0.1"])
    path = "training.source_noise.typo"
    assert found == [f"{path} is not a setting; did you mean {path}s?"]
    (problem,) = problems(assignments=["training.source_noise.typos=2"])
    assert problem == "training.source_noise.typos must be from 0 to 1, not 2.0"


def test_a_setting_without_its_table_is_found():
    with pytest.raises(SettingsError, match=r"did you mean training\.learning_rate\?"):
        resolve(assignments=["learning_rat=0.1"])
    with pytest.raises(SettingsError, match="is not a setting; choose from task"):
        resolve(assignments=["nonsense=1"])


@pytest.mark.parametrize("task", ["language_model", "masked_language_model"])
def test_a_window_of_one_token_is_refused(task):
    """A generator that kept the last 0 tokens of such a window kept all of them."""
    with pytest.raises(SettingsError, match=r"data.max_tokens must be 2 or more"):
        resolve(extra={"task": task, "data": {"max_tokens": 1}})


@pytest.mark.parametrize("task", ["language_model", "masked_language_model"])
def test_models_of_plain_text_have_rotary_positions_unless_told_otherwise(task):
    """Sinusoids teach a masked language model little more than frequencies."""
    given = {"task": task, "model": {"positions": "learned"}}

    assert resolve(preset="tiny", extra={"task": task}).model.positions == "rotary"
    assert resolve(preset="tiny", extra=given).model.positions == "learned"


@pytest.mark.parametrize(
    ("training", "on_plateau"),
    [
        ({}, "cooldown"),
        ({"schedule": "constant"}, "cooldown"),
        ({"schedule": "linear"}, "stop"),
        ({"schedule": "cosine"}, "stop"),
        ({"patience": "none"}, "stop"),
        ({"cooldown": 0}, "stop"),
        ({"cooldown": 0.1}, "cooldown"),
        ({"patience": 3, "on_plateau": "stop"}, "stop"),
    ],
)
def test_the_cooldown_of_a_preset_gives_way_to_what_excludes_it(training, on_plateau):
    recipe = resolve(preset="tiny", extra={"training": training})

    assert recipe.training.on_plateau == on_plateau


def test_a_cooldown_that_is_asked_for_with_what_excludes_it_is_refused():
    training = {"schedule": "linear", "on_plateau": "cooldown"}

    with pytest.raises(SettingsError, match="falls to 0 by itself"):
        resolve(preset="tiny", extra={"training": training})
