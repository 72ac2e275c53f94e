import json

import pytest

from headwise.data.pictures import read_labelled_pictures
from headwise.sample_data.samples import SAMPLES
from headwise.tasks import TASKS
from headwise.text.dialogue import read_turns, split_last_answer
from headwise.text.trees import parse_tree


@pytest.mark.parametrize("name", SAMPLES)
def test_every_sample_is_written_for_its_task(name, tmp_path):
    sample = SAMPLES[name]
    files = sample.write(tmp_path)

    assert sample.task in TASKS
    assert files.keys() == {"train", "dev", "test"}
    for path in files.values():
        if sample.suffix == ".npz":
            assert len(read_labelled_pictures(path)[0]) > 100
            continue
        lines = path.read_text(encoding="utf-8").split("\n")[:-1]
        assert lines
        if sample.suffix == ".jsonl":
            turns = [read_turns(json.loads(line)) for line in lines]
            assert all(split_last_answer(each) for each in turns)
        elif sample.suffix == ".mrg":
            assert all(parse_tree(line).words for line in lines)
        elif sample.suffix == ".txt":
            assert all(line[0].isupper() and line.endswith(".") for line in lines)
        else:
            assert all(line.count("\t") == 1 for line in lines)


def test_every_task_has_a_sample_or_the_demo_of_translation():
    assert {each.task for each in SAMPLES.values()} == {*TASKS}


def test_the_tag_of_a_preposition_tells_what_it_belongs_to(tmp_path):
    """A telescope is seen through, and a hat is worn."""
    lines = SAMPLES["tags"].write(tmp_path)["train"].read_text("utf-8").splitlines()
    belongs = {"telescope": "IN-VP", "hat": "IN-NP"}
    checked = set()
    for line in lines:
        words, tags = (part.split() for part in line.split("\t"))
        assert len(words) == len(tags)
        for noun, tag in belongs.items():
            if noun in words:
                place = max(n for n, word in enumerate(words) if word == "with")
                if noun in words[place:]:
                    assert tags[place] == tag
                    checked.add(noun)
    assert checked == {*belongs}
