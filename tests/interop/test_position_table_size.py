"""The number of positions in an export."""

from dataclasses import replace

from headwise.interop.position_table_size import num_positions


def test_a_text_may_be_as_long_as_the_search_allows(chance_model):
    opened = chance_model()
    longer = replace(opened, facts=replace(opened.facts, longest_source=2000))

    assert num_positions(opened) == 1024
    assert num_positions(longer) == 4011  # 2 * 2000 + 10 and END
    learned = chance_model(positions="learned", max_positions=50)
    assert num_positions(learned) == 50
