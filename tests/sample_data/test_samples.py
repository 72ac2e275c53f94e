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
        else:
            assert all(line.count("\t") == 1 for line in lines)
