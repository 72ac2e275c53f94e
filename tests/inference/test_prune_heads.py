"""Folders of models without some heads."""

import shutil
from pathlib import Path

import pytest
import torch

from headwise import load
from headwise.errors import UsageError
from headwise.inference.prune_heads import write_pruned
from headwise.inspection.head_ranking import loss_without, references_of_pairs
from headwise.inspection.interventions import HeadOff, intervene
from headwise.inspection.places import find_head, parse_head
from headwise.run_folder.model_folder import open_model_folder

DEMO = Path(__file__).parents[1] / "models" / "demo"
HEADS = [parse_head("encoder.0.3"), parse_head("decoder.1.0"), parse_head("cross.0.0")]
TEXTS = [
    "The animal didn't cross the street because it was too tired.",
    "The dog sees two cats.",
    "She is happy.",
]
PAIRS = [([5, 6, 7], [8, 9])]


@pytest.fixture(scope="module")
def pruned(tmp_path_factory):
    opened = open_model_folder(DEMO)
    out = tmp_path_factory.mktemp("pruned") / "model"
    loss = loss_without(opened.model, references_of_pairs(opened.model, PAIRS), HEADS)
    write_pruned(opened, out, loss, measured_on="dev.fr")
    return out


def test_only_the_slices_of_w_o_differ(pruned):
    ours, theirs = open_model_folder(pruned).model, open_model_folder(DEMO).model
    changed = set()
    before = theirs.state_dict()
    for name, weight in ours.state_dict().items():
        if not torch.equal(weight, before[name]):
            changed.add(name)
    for head in HEADS:
        width = 24
        columns = slice(head.head * width, (head.head + 1) * width)
        weight = find_head(ours, head).to_output.weight
        assert (weight[:, columns] == 0).all()
    assert changed == {
        "encoder.blocks.0.self_attention.to_output.weight",
        "decoder.blocks.1.self_attention.to_output.weight",
        "decoder.blocks.0.cross_attention.to_output.weight",
    }


def test_it_translates_as_the_model_with_these_heads_off(pruned):
    """Every engine, as none has to know of it; hooks are the other way to say it."""
    whole = load(DEMO, engine="torch")
    with intervene(whole.opened.model, *map(HeadOff, HEADS)):
        expected = whole.translate(TEXTS)

    assert load(pruned, engine="torch").translate(TEXTS) == expected
    assert load(pruned, engine="torch", backend="torch").translate(TEXTS) == expected


def test_its_export_has_no_such_heads_either(pruned, tmp_path):
    pytest.importorskip("ctranslate2")
    folder = tmp_path / "model"
    shutil.copytree(pruned, folder)

    exported = load(folder, engine="ctranslate2").translate(TEXTS)

    assert exported == load(folder, engine="torch").translate(TEXTS)


def test_golden_translations_are_made_again_and_the_card_says_so(pruned):
    opened = open_model_folder(pruned)
    card = (pruned / "README.md").read_text(encoding="utf-8")

    translator = load(pruned, engine="torch")
    for golden in opened.golden:
        assert translator.translate(golden.source) == golden.output
    assert [x.source for x in opened.golden] == [
        x.source for x in open_model_folder(DEMO).golden
    ]
    assert "encoder.0.3, decoder.1.0, cross.0.0" in card
    assert "of the model with all heads, demo" in card
    assert "\nlibrary_name: headwise\n" in card.partition("\n---\n")[0]


def test_notes_of_the_user_stay(tmp_path):
    from headwise.run_folder.card_edit import CardChanges
    from headwise.run_folder.editing import edit_model

    folder = tmp_path / "demo"
    shutil.copytree(DEMO, folder)
    edit_model(folder, search={}, card=CardChanges(notes="Mind the gap."))
    opened = open_model_folder(folder)
    loss = loss_without(
        opened.model, references_of_pairs(opened.model, PAIRS), HEADS[:1]
    )

    write_pruned(opened, tmp_path / "new", loss, measured_on="dev.fr")

    card = (tmp_path / "new" / "README.md").read_text(encoding="utf-8")
    assert card.count("## Notes") == 1
    assert card.index("Mind the gap.") < card.index("1 head removed after training")


def test_the_model_itself_is_not_replaced(tmp_path):
    folder = tmp_path / "demo"
    shutil.copytree(DEMO, folder)
    opened = open_model_folder(folder)
    loss = loss_without(
        opened.model, references_of_pairs(opened.model, PAIRS), HEADS[:1]
    )

    for out in (folder, folder / "exports"):
        with pytest.raises(UsageError, match="name another folder"):
            write_pruned(opened, out, loss, measured_on="dev.fr")
