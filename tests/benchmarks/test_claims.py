"""Claims: tasks are what they say, rules decide as written, and trials are kept."""

import json
import random
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def claims(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    import claims

    return claims


@pytest.fixture
def judged(claims):
    import claims_judged

    return claims_judged


@pytest.fixture
def recurrence(claims):
    import claims_recurrence

    return claims_recurrence


@pytest.fixture
def transformer(claims):
    import claims_transformer

    return claims_transformer


@pytest.fixture
def brackets(claims):
    import claims_brackets

    return claims_brackets


def test_gradients_of_a_linear_recurrence_fall_by_its_factor(recurrence):
    """h_t = h_{t-1} / 2 + x_t: each symbol further back has half the gradient."""

    class Halving(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = torch.nn.Embedding(recurrence.QUERY + 1, 4)
            self.output = torch.nn.Linear(4, recurrence.QUERY + 1)

        def forward(self, tokens):
            state = torch.zeros(len(tokens), 4)
            for x in self.embedding(tokens).unbind(dim=1):
                state = state / 2 + x
            return self.output(state)

    found = recurrence.gradients(Halving(), torch.Generator().manual_seed(1))

    assert found["1"] / found["0"] == pytest.approx(1 / 2)
    assert found["10"] / found["2"] == pytest.approx(2**-8)


def test_the_symbol_is_so_many_distractors_before_the_query(recurrence):
    tokens, answers = recurrence.examples(5, 30, torch.Generator().manual_seed(1))

    assert tokens.shape == (30, 7)
    assert tokens[:, 0].tolist() == answers.tolist()
    assert (tokens[:, -1] == recurrence.QUERY).all()
    assert set(tokens[:, 1:-1].flatten().tolist()).isdisjoint(answers.tolist())


@pytest.mark.parametrize("name", ["gru, 3 layers", "transformer, 1 layer"])
def test_accuracy_of_an_untrained_network_is_near_chance(recurrence, name):
    model = recurrence.make(**recurrence.CHOICES[name], seed=1).eval()

    found = recurrence.accuracy(model, 3, torch.Generator().manual_seed(1))

    assert 0.02 < found < 0.3


def test_texts_are_copied_and_reversed(transformer):
    rng = random.Random(1)
    source, target = transformer.copies([3, 1], rng)
    assert source.tolist() == target.tolist()
    assert source[1].tolist()[1:] == [transformer.END, 0, 0]

    source, target = transformer.reversals((4, 4), 1, rng)
    (row,), (answer,) = source.tolist(), target.tolist()
    assert row[-1] == transformer.END
    assert answer == [*row[3::-1], 0]


@pytest.mark.parametrize("depth", [1, 3, 8])
def test_a_target_closes_what_its_source_leaves_open(brackets, depth):
    rng = random.Random(1)
    lengths = set()
    for _ in range(50):
        source, target = brackets.nesting(depth, rng)
        assert len(target) == depth + 1
        assert source[-1] == target[-1] == brackets.END
        lengths.add(len(source))
        opened = []
        for token in [*source[:-1], *target[:-1]]:
            kind, number = divmod(token - brackets.FIRST, brackets.KINDS)
            if kind == 0:
                opened.append(number)
            else:
                assert opened.pop() == number
        assert not opened
    assert max(lengths) <= brackets.LONGEST + 1
    assert len(lengths) > 5


def test_orders_of_brackets_are_equally_likely(brackets):
    """Two pairs around one open bracket: five orders, by hand."""
    rng = random.Random(1)
    found = [
        "".join("(" if each else ")" for each in brackets.steps(1, 2, rng))
        for _ in range(2_000)
    ]

    assert {*found} == {"((())", "(()()", "(())(", "()(()", "()()("}
    assert all(350 < found.count(each) < 450 for each in {*found})


def test_a_frequency_for_each_channel_by_hand(transformer):
    """Channels 1 to 4 of position 20, in four: 10000^(-i / 2) is 1/100 for i = 1."""
    (found,) = transformer.channel_sinusoids(torch.tensor([19]), 4).tolist()

    assert found == pytest.approx(
        [np.cos(0.2), np.sin(0.002), np.cos(2e-5), np.sin(2e-7)], rel=1e-9
    )


def test_only_the_paper_s_sinusoids_are_shifted_by_a_linear_map(transformer):
    """Section 3.5: PE(pos + k) is a linear function of PE(pos)."""
    from headwise.model.positions import sinusoids

    assert transformer.shift_error(sinusoids) < 1e-9
    assert transformer.shift_error(transformer.channel_sinusoids) > 0.05


def test_a_choice_of_frequencies_reaches_both_stacks(transformer, monkeypatch):
    used = []

    def formula(positions, width):
        used.append(width)
        return torch.zeros(len(positions), width)

    monkeypatch.setattr(transformer, "channel_sinusoids", formula)
    choice = transformer.SINUSOIDS["a frequency for each channel"]
    transformer.train_on_words(choice, 1, 1)

    assert used == [transformer.SHAPE.d_model] * 2


def test_positions_are_read_off_vectors_that_have_them(transformer):
    """R² is 1 of a linear function of the position, and not above 0 of noise."""
    rng = np.random.default_rng(1)
    places = rng.integers(0, 20, size=2_000).astype(float)
    is_train = np.arange(2_000) % 2 == 0
    noise = rng.normal(size=(2_000, 8))
    linear = np.column_stack([places * 3 - 1, noise])

    found = transformer.r_squared(linear, places, is_train)
    assert found == pytest.approx(1, abs=1e-3)
    assert abs(transformer.r_squared(noise, places, is_train)) < 0.05


def test_greedy_search_writes_what_is_counted_as_exact(transformer):
    """With the target given, all tokens are right just where greedy search is right."""
    import small_training

    model = small_training.make_transformer(
        transformer.POSITIONS["sinusoidal"], transformer.SHAPE, 13, 1
    )
    rng = random.Random(1)
    small_training.optimize(
        model,
        lambda _: small_training.pair_loss(
            model, transformer.copies([rng.randint(1, 3) for _ in range(16)], rng)
        ),
        updates=150,
        learning_rate=0.005,
    )
    source, target = transformer.copies([3] * 40, rng)

    state, right = model.start(source, source != 0), torch.ones(40, dtype=torch.bool)
    token = torch.full((40,), small_training.START)
    for place in range(target.shape[1]):
        logits, state = model.step(token, state)
        token = logits.argmax(dim=1)
        right &= token == target[:, place]

    found = small_training.accuracies(model, (source, target))
    assert found["exact"] == pytest.approx(float(right.float().mean()))
    assert found["tokens"] > 0


def trials_of(values, name="dev_loss"):
    return [{"seed": i, name: value} for i, value in enumerate(values)]


def test_learned_positions_are_equivalent_only_within_the_margin(judged):
    """By hand: differences 0.01, -0.01 around 0; t(1) at 90% is 6.314.

    Half of the interval is 6.314 x 0.01414 / √2 = 0.0631, more than 0.05: undecided.
    With eight pairs it is 1.895 x 0.0107 / √8 = 0.0072.
    """

    def judge(differences):
        return judged.judge_learned(
            {
                "sinusoidal": trials_of([2.0] * len(differences)),
                "learned": trials_of([2.0 + x for x in differences]),
            }
        )

    few = judge([0.01, -0.01])
    assert few["high_90"] == pytest.approx(0.0631, abs=1e-4)
    assert few["verdict"] == "undecided"
    many = judge([0.01, -0.01] * 4)
    assert many["high_90"] == pytest.approx(0.0072, abs=1e-4)
    assert many["verdict"] == "holds"
    assert judge([0.2, 0.21, 0.2])["verdict"] == "does not hold"


def test_convolutions_are_judged_by_the_best_of_each_side(judged, brackets):
    def judge(**values):
        exact = {
            "transformer, 2 layers": values.get("transformer", [0.8, 0.81, 0.8]),
            "gru, 2 layers": [0.1, 0.1, 0.1],
            "convolutions, 6 layers": values["convolutions"],
            "dilated convolutions, 6 layers": [0.2, 0.2, 0.2],
        }
        return judged.judge_brackets(
            {
                choice: [
                    {"by_depth": {str(d): {"exact": x} for d in brackets.DEPTHS}}
                    for x in of_seeds
                ]
                for choice, of_seeds in exact.items()
            }
        )

    behind = judge(convolutions=[0.4, 0.4, 0.41])
    assert behind["verdict"] == "holds"
    assert behind["best_other"] == "transformer, 2 layers"
    assert behind["best_convolution"] == "convolutions, 6 layers"
    assert judge(convolutions=[0.9, 0.9, 0.91])["verdict"] == "does not hold"
    assert judge(convolutions=[0.9, 0.7, 0.8])["verdict"] == "undecided"
    unlearned = judge(convolutions=[0.0] * 3, transformer=[0.3, 0.3, 0.3])
    assert unlearned["verdict"] == "undecided"


def test_a_difference_is_judged_by_its_interval(judged):
    def judge(tied):
        runs = {
            "all": tied,
            "output": [0.5, 0.5, 0.5],
            "none": [0.5, 0.5, 0.5],
        }
        names = ("dev_loss", "entropy", "largest_probability", "accuracy")
        return judged.judge_tying(
            {
                choice: [dict.fromkeys(names, value) for value in values]
                for choice, values in runs.items()
            }
        )["verdict"]

    assert judge([0.6, 0.61, 0.6]) == "holds"
    assert judge([0.4, 0.41, 0.4]) == "does not hold"
    assert judge([0.4, 0.61, 0.55]) == "undecided"


def test_batch_normalization_is_judged_by_what_varied_lengths_add(judged):
    """It loses 0.3 at any length: varied lengths are not to blame."""
    layer, batch = [0.1, 0.11, 0.12], [0.4, 0.42, 0.41]
    runs = {
        f"{kind}, {lengths} lengths": [
            {"dev_loss": x, "batch_statistics": x} for x in values
        ]
        for kind, values in (("layer", layer), ("batch", batch))
        for lengths in ("equal", "varied")
    }

    found = judged.judge_norm(runs)

    assert found["batch_less_layer_equal"]["low"] > 0
    assert found["varied_less_equal"]["mean"] == 0
    assert found["verdict"] == "undecided"


def test_every_claim_says_who_says_it_and_its_rule(judged):
    for claim in judged.CLAIMS.values():
        assert claim.text.endswith(".")
        assert claim.said_by
        assert claim.rule.startswith("holds if")
        assert claim.choices
        assert claim.seeds


def test_trials_are_run_once_and_forgotten_with_other_settings(
    claims, judged, monkeypatch, tmp_path
):
    done = []

    def trial(choice, seed, rehearse):
        done.append((choice["value"], seed))
        return {"dev_loss": choice["value"] * seed}

    def claim(settings):
        return judged.Claim(
            "Twice is more.",
            "nobody",
            {"one": {"value": 1.0}, "two": {"value": 2.0}},
            trial,
            lambda trials: {
                **judged.difference(trials["two"], trials["one"], "dev_loss"),
                "verdict": "holds",
            },
            "holds if it is",
            (1, 2),
            settings,
        )

    def run(settings, *arguments):
        monkeypatch.setattr(claims, "CLAIMS", {"twice": claim(settings)})
        out = tmp_path / "claims.json"
        monkeypatch.setattr(sys, "argv", ["claims.py", "--out", str(out), *arguments])
        claims.main()
        return json.loads(out.read_text())["claims"]["twice"]

    first = run({}, "--seeds", "1")
    assert first["seeds"] == [1]
    both = run({})
    assert done == [(1.0, 1), (2.0, 1), (1.0, 2), (2.0, 2)]
    assert both["figures"]["mean"] == 1.5
    assert len(run({})["trials"]) == 4
    assert len(done) == 4
    assert run({"updates": 7}, "--seeds", "1")["seeds"] == [1]
    assert len(done) == 6


def test_an_unknown_claim_is_named_with_those_there_are(claims, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["claims.py", "--only", "gravity", "--rehearse"])

    with pytest.raises(SystemExit):
        claims.main()

    assert (
        "there is no claim gravity; choose from recurrence" in capsys.readouterr().err
    )
