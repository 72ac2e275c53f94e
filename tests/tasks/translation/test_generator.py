"""Every search over a trained model: the committed one, which knows simple French."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.torch_threads import torch_threads

import headwise
from headwise.decoding.ensemble import AVERAGES
from headwise.decoding.forced_prefix import NO_PREFIX
from headwise.decoding.settings import DecodingSettings, greedy, paper
from headwise.decoding.warnings import CUT_OFF
from headwise.errors import DataError, SettingsError, UsageError
from headwise.run_folder.model_folder import open_model_folder
from headwise.text.vocabulary import END, PAD, START

DEMO = Path(__file__).parents[2] / "models" / "demo"

TEXTS = [
    "The dog sleeps in the garden.",
    "My mother eats bread.",
    "The cats run in the park.",
    "He drinks the water.",
    "A dog runs.",
    "The small house is white and she sees the river.",
]

WAYS = {
    "greedy": greedy(),
    "beam": DecodingSettings(num_best=4),
    "paper": paper(),
    "reward": DecodingSettings(length_penalty="word-reward", alpha=0.3),
    "coverage": DecodingSettings(coverage=0.2),
    "diverse": DecodingSettings(search="diverse-beam", num_best=4),
    "sampling": DecodingSettings(
        search="sampling", samples=3, num_best=3, top_p=0.9, temperature=0.7
    ),
    "bayes": DecodingSettings(search="sampling", samples=6, choose="chrf"),
    "bayes over a beam": DecodingSettings(choose="bleu"),
    "rules": DecodingSettings(
        no_repeat_ngram=2, repetition_penalty=1.3, banned=("chien",)
    ),
}


@pytest.fixture(scope="module")
def opened():
    return open_model_folder(DEMO)


@pytest.fixture(scope="module")
def task(opened):
    return opened.task


@pytest.fixture(scope="module")
def translator():
    return headwise.load(DEMO, engine="torch")


def outputs_of(found):
    return [[each.tokens for each in outputs] for outputs in found]


@pytest.mark.parametrize("way", WAYS)
def test_an_output_does_not_depend_on_its_batch(opened, task, way):
    sources = task.encode(TEXTS)
    together = task.search(opened.model, sources, WAYS[way])
    backwards = task.search(opened.model, sources[::-1], WAYS[way])
    alone = [task.search(opened.model, [each], WAYS[way])[0] for each in sources]

    assert outputs_of(backwards[::-1]) == outputs_of(together)
    assert outputs_of(alone) == outputs_of(together)


@pytest.mark.parametrize("way", WAYS)
def test_scores_with_and_without_a_kv_cache_agree_to_1e_6(opened, task, way):
    """Per token, in float64, where rounding does not hide a difference."""
    model = open_model_folder(DEMO).model.double()
    sources = task.encode(TEXTS[:3])
    cached, again = (
        task.generator(model, cached=cached).search(sources, WAYS[way])
        for cached in (True, False)
    )

    assert outputs_of(cached) == outputs_of(again)
    for one, other in zip(cached, again, strict=True):
        for found, same in zip(one, other, strict=True):
            assert found.score == pytest.approx(same.score, abs=1e-6)
            assert found.log_probability == pytest.approx(
                same.log_probability, abs=1e-6 * (1 + len(found.tokens))
            )


@pytest.mark.parametrize("way", WAYS)
def test_the_score_of_a_hypothesis_is_its_forced_score(opened, task, way):
    sources = task.encode(TEXTS)
    asked = replace(WAYS[way], token_scores=True)
    found = task.search(opened.model, sources, asked)
    pairs = [
        (source, each.tokens)
        for source, outputs in zip(sources, found, strict=True)
        for each in outputs
    ]
    flat = [each for outputs in found for each in outputs]

    for each, given_it in zip(
        flat, task.score(opened.model, pairs, asked), strict=True
    ):
        traced = each.token_log_probabilities
        assert traced == pytest.approx(
            given_it.token_log_probabilities[: len(traced)], abs=1e-4
        )
        if each.finished:
            assert each.log_probability == pytest.approx(
                given_it.log_probability, abs=1e-4
            )


@pytest.mark.parametrize("average", AVERAGES)
@pytest.mark.parametrize("way", ["beam", "coverage", "sampling"])
def test_an_ensemble_of_a_model_with_itself_is_the_model(opened, task, way, average):
    asked = replace(WAYS[way], ensemble=average)
    sources = task.encode(TEXTS[:4])
    one = task.search(opened.model, sources, asked)
    two = task.search([opened.model, opened.model], sources, asked)
    pairs = [
        (source, each[0].tokens) for source, each in zip(sources, one, strict=True)
    ]
    scores = task.score([opened.model] * 2, pairs, asked)

    assert outputs_of(two) == outputs_of(one)
    for found, same in zip(two, one, strict=True):
        assert found[0].score == pytest.approx(same[0].score, abs=1e-5)
    for found, score in zip(one, scores, strict=True):
        if found[0].finished:
            assert found[0].log_probability == pytest.approx(
                score.log_probability, abs=1e-4
            )


@pytest.fixture(scope="module")
def other():
    """Return a model of the same vocabulary that says something else."""
    other = open_model_folder(DEMO).model
    with torch.no_grad():
        generator = torch.Generator().manual_seed(0)
        noise = torch.randn(other.output_vectors.shape, generator=generator)
        other.output_vectors.add_(0.1 * noise)
    return other


def test_an_ensemble_of_two_models_differs_from_each(opened, task, other):
    sources = task.encode(TEXTS)
    scores = [
        task.search(models, sources, greedy())[0][0].log_probability
        for models in (opened.model, other, [opened.model, other])
    ]

    assert len(set(scores)) == 3


BY_HAND = {
    "probabilities": lambda ours, theirs: ((ours.exp() + theirs.exp()) / 2).log(),
    "log-probabilities": lambda ours, theirs: ((ours + theirs) / 2).log_softmax(-1),
}


@pytest.mark.parametrize("average", AVERAGES)
@pytest.mark.parametrize("way", ["greedy", "beam", "coverage"])
def test_an_ensemble_averages_as_configured(opened, task, other, way, average):
    """The ln p of each token, from the scores of each model by itself.

    Once only a model with itself was looked at, of which every mean is the model.
    """
    asked = replace(WAYS[way], ensemble=average, token_scores=True)
    models = [opened.model, other]
    sources = task.encode(TEXTS)
    found = [each[0] for each in task.search(models, sources, asked)]
    pairs = [(source, each.tokens) for source, each in zip(sources, found, strict=True)]
    scored = task.score(models, pairs, asked)

    for (source, target), each, score in zip(pairs, found, scored, strict=True):
        tokens, shifted = torch.tensor([[*source, END]]), [[START, *target]]
        with torch.inference_mode():
            ours, theirs = (
                model(tokens, torch.tensor(shifted), tokens != PAD)[0].log_softmax(-1)
                for model in models
            )
        mean = BY_HAND[average](ours.double(), theirs.double())
        expected = mean.gather(1, torch.tensor([*target, END])[:, None])[:, 0].tolist()
        traced = each.token_log_probabilities
        assert traced == pytest.approx(expected[: len(traced)], abs=1e-4)
        assert score.token_log_probabilities == pytest.approx(expected, abs=1e-4)


def test_models_of_different_vocabularies_are_no_ensemble(tiny_run):
    with pytest.raises(UsageError, match="another source vocabulary"):
        headwise.load([DEMO, tiny_run], engine="torch")


def test_an_ensemble_is_not_for_ctranslate2():
    with pytest.raises(UsageError, match="torch and float32 only"):
        headwise.load([DEMO, DEMO], engine="ctranslate2")


def test_each_sentence_may_have_its_own_search(opened, task):
    sources = task.encode(TEXTS)
    ways = [*WAYS.values()][: len(sources)]
    mixed = task.search(opened.model, sources, ways)

    for source, way, found in zip(sources, ways, mixed, strict=True):
        (alone,) = task.search(opened.model, [source], way)
        assert outputs_of([alone]) == outputs_of([found])


def test_settings_must_be_as_many_as_sources(opened, task):
    with pytest.raises(UsageError, match="2 sources and 1 settings"):
        task.search(opened.model, [[5], [6]], [greedy()])


def test_no_output_contains_a_banned_phrase(translator):
    banned = ["chien", "dans le", "Le"]
    for search in ({}, {"beam": 1}, {"search": "sampling", "samples": 3}):
        for text in translator.translate(TEXTS, banned=banned, **search):
            padded = f" {text.replace('.', ' ')} "
            assert not any(f" {phrase} " in padded for phrase in banned)


@pytest.mark.parametrize("prefix", ["Les ch", "Les chats ", "La petite", "Le ", ""])
def test_a_translation_starts_with_its_forced_prefix(translator, prefix):
    for each in translator.lines(TEXTS, prefixes=[prefix] * len(TEXTS)):
        assert each.text.startswith(prefix.strip())
        if prefix.endswith(" "):
            assert not each.text[len(prefix.strip()) :][:1].isalnum()


def test_a_prefix_of_half_a_word_is_completed(translator):
    (found,) = translator.lines(["The dog sleeps in the garden."], prefixes=["Le chi"])

    assert found.text == "Le chien dort dans le jardin."


def test_fewer_prefixes_than_lines_are_refused(translator):
    with pytest.raises(DataError, match="line 2 has no prefix"):
        list(translator.lines(["a", "b"], prefixes=["x"]))
    with pytest.raises(DataError, match="more prefixes than lines, which are 1"):
        list(translator.lines(["a"], prefixes=["x", "y"]))


def test_alternatives_differ_in_their_next_token(translator):
    found = translator.alternatives(TEXTS[0], "Le ch", count=4)
    texts = [each.text for each in found]

    assert len(set(texts)) == 4
    assert all(text.startswith("Le ch") for text in texts)
    assert texts[0] == "Le chien dort dans le jardin."


def test_end_is_an_alternative_too(translator):
    found = translator.alternatives(TEXTS[4], "Un chien court.", count=3)

    assert "court." in found[0].text
    assert len({each.text for each in found}) == 3


def test_words_are_aligned_to_their_source(translator):
    """The head was chosen on translations by the model itself."""
    sources = [*TEXTS, "The red car is big.", "Our teacher reads a book."]
    head = translator.best_alignment_head(sources, translator.translate(sources))
    (found,) = translator.lines(
        ["My mother eats bread."], alignments=True, alignment_head=head
    )

    assert found.text == "Ma mère mange du pain."
    links = found.candidates[0].alignment.split()
    assert {"0-0", "1-1", "2-2"} <= set(links)


def test_a_missing_alignment_head_is_refused(translator):
    with pytest.raises(SettingsError, match="has 2 decoder blocks of 4 heads"):
        translator.translate(TEXTS[0], alignments=True, alignment_head="7:0")


def test_an_output_at_the_length_limit_gives_a_warning(translator):
    (found,) = translator.lines([TEXTS[0]], max_length_factor=0.0, max_length_offset=3)

    assert CUT_OFF in found.warnings


def test_unknown_letters_give_a_warning(translator):
    (found,) = translator.lines(["The €€ dog."])

    assert any("unknown" in each for each in found.warnings)


def test_each_token_has_its_log_probability(translator):
    (found,) = translator.lines([TEXTS[0]], token_scores=True)
    best = found.candidates[0]

    assert best.tokens[-1][0] == "</s>"
    assert sum(each for _, each in best.tokens) == pytest.approx(best.log_probability)
    text = "".join(piece for piece, _ in best.tokens[:-1]).replace("▁", " ").strip()
    assert text == best.text


def test_forced_scores_equal_search_scores(translator):
    (found,) = translator.lines([TEXTS[1]])
    good, bad = translator.score([TEXTS[1]] * 2, [found.text, "La maison est blanche."])

    assert good.score == pytest.approx(found.candidates[0].score, abs=1e-5)
    assert bad.score < good.score


def test_an_empty_prefix_is_no_prefix(task):
    assert task.prefix("") == NO_PREFIX
    assert not task.prefix("  ")


@settings(max_examples=12, deadline=None)
@given(
    st.lists(st.text(max_size=20).filter(lambda text: "\n" not in text), max_size=3),
    st.sampled_from(sorted(WAYS)),
)
def test_as_many_lines_come_out_as_went_in(lines, way):
    translator = _shared()
    search = {
        name: getattr(WAYS[way], name)
        for name in ("search", "beam", "samples", "num_best", "no_repeat_ngram")
    }
    found = list(translator.lines(lines, max_length_offset=5, **search))

    assert [each.source for each in found] == lines
    assert all("\n" not in each.text for each in found)


_LOADED = []


def _shared():
    """Return one translator for all examples: hypothesis wants no fixture here."""
    if not _LOADED:
        _LOADED.append(headwise.load(DEMO, engine="torch"))
    return _LOADED[0]


def test_a_forced_prefix_is_an_error_for_ctranslate2_and_auto_takes_torch(tmp_path):
    shutil.copytree(DEMO, tmp_path / "demo")
    fast = headwise.load(tmp_path / "demo", engine="ctranslate2")
    with pytest.raises(SettingsError, match="--engine torch would do"):
        list(fast.lines(["a"], prefixes=["Le"]))

    auto = headwise.load(tmp_path / "demo")
    (found,) = auto.lines(["a"], prefixes=["Le"])
    assert found.text.startswith("Le")
    assert [*auto.engine.used] == ["torch"]


def test_a_blank_line_with_a_prefix_stays_blank_with_a_warning(translator):
    (found,) = translator.lines([" "], prefixes=["Le"])

    assert found.text.strip() == ""
    assert "a blank line stays blank" in found.warnings[0]


@pytest.mark.parametrize("way", WAYS)
def test_batches_in_threads_change_nothing(opened, task, way):
    """As many batches as there are threads, in each way to search."""
    sources = task.encode(TEXTS)
    found = {}
    for threads in (1, 3):
        with torch_threads(threads):
            found[threads] = task.search(opened.model, sources, WAYS[way])

    for alone, beside in zip(found[1], found[3], strict=True):
        assert [each.tokens for each in alone] == [each.tokens for each in beside]
        scores = [[each.score for each in some] for some in (alone, beside)]
        assert scores[0] == pytest.approx(scores[1], abs=1e-4)
