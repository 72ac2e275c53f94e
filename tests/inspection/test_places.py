"""Names of heads and sublayers."""

import pytest
from tests.inspection.conftest import random_model

from headwise.errors import UsageError
from headwise.inspection.places import (
    AttentionName,
    Head,
    SublayerName,
    all_heads,
    as_head,
    as_heads,
    as_sublayer,
    attention_layers,
    find_sublayer,
    parse_head,
    parse_place,
    sublayers,
)


def test_names_are_read_as_they_are_shown():
    model = random_model(encoder_layers=3, decoder_layers=1)
    for place in [*all_heads(model), *sublayers(model)]:
        assert parse_place(str(place)) == place


def test_layers_come_in_the_order_of_figure_1():
    names = list(map(str, attention_layers(random_model())))

    assert names == [
        *("encoder.0", "encoder.1"),
        *("decoder.0", "decoder.1"),
        *("cross.0", "cross.1"),
    ]
    assert list(map(str, sublayers(random_model(encoder_layers=1, decoder_layers=1))))[
        :3
    ] == [
        "encoder.0.self_attention",
        "encoder.0.feed_forward",
        "decoder.0.self_attention",
    ]


def test_a_name_leads_to_its_modules():
    model = random_model()
    block = model.decoder.blocks[1]

    assert attention_layers(model)[AttentionName("cross", 1)] is block.cross_attention
    found = find_sublayer(model, SublayerName("decoder", 1, "feed_forward"))
    assert found == (block.feed_forward, block.around_feed_forward)
    encoder = model.encoder.blocks[0]
    found = find_sublayer(model, SublayerName("encoder", 0, "self_attention"))
    assert found == (encoder.self_attention, encoder.around_attention)


@pytest.mark.parametrize(
    "name",
    ["", "cross", "cross.1", "cross.1.x", "crossed.1.2", "cross.-1.2", "cross.1.2.3"],
)
def test_what_names_no_head_is_refused_with_examples(name):
    with pytest.raises(UsageError, match=r"does not name a head; .* cross.1.3"):
        parse_head(name)


@pytest.mark.parametrize("name", [None, 3, b"cross.1.3", ["cross.1.3"]])
def test_what_is_no_text_names_nothing(name):
    with pytest.raises(UsageError, match="does not name a head"):
        parse_head(name)
    with pytest.raises(UsageError, match="names neither a head"):
        parse_place(name)


def test_places_may_be_given_by_name():
    head, sublayer = Head("cross", 1, 3), SublayerName("decoder", 1, "feed_forward")

    assert as_head("cross.1.3") == as_head(head) == head
    assert as_heads("cross.1.3") == as_heads(head) == as_heads([head]) == [head]
    assert as_heads(["cross.1.3", head]) == [head, head]
    assert as_sublayer("decoder.1.feed_forward") == as_sublayer(sublayer) == sublayer
    for each in ("cross.1.3", head):
        with pytest.raises(UsageError, match="is a head, and not a sublayer"):
            as_sublayer(each)


def test_what_names_no_sublayer_is_refused():
    with pytest.raises(UsageError, match="does not name a sublayer"):
        parse_place("cross.1.feed_forward")
    with pytest.raises(UsageError, match=r"no sublayer encoder.7.feed_forward"):
        find_sublayer(random_model(), SublayerName("encoder", 7, "feed_forward"))


def test_heads_sort_by_layer():
    assert sorted([Head("cross", 1, 0), Head("cross", 0, 3)])[0].layer == 0
