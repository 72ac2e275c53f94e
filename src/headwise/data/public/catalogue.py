"""The public corpora that there are."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from headwise.data.public.corpus import PublicCorpus
from headwise.data.public.iwslt14 import iwslt14_de_en
from headwise.data.public.iwslt15 import iwslt15_en_vi
from headwise.data.public.multi30k import multi30k
from headwise.data.public.tatoeba import tatoeba_en_de, tatoeba_en_fr
from headwise.data.public.wmt14 import wmt14_en_de, wmt14_en_fr

CORPORA: dict[str, Callable[[], PublicCorpus]] = {
    "multi30k-en-de": partial(multi30k, "de"),
    "multi30k-en-fr": partial(multi30k, "fr"),
    "multi30k-en-cs": partial(multi30k, "cs"),
    "tatoeba-en-de": tatoeba_en_de,
    "tatoeba-en-fr": tatoeba_en_fr,
    "iwslt14-de-en": iwslt14_de_en,
    "iwslt15-en-vi": iwslt15_en_vi,
    "wmt14-en-de": wmt14_en_de,
    "wmt14-en-fr": wmt14_en_fr,
}
"""Name -> the corpus, which is made when it is asked for."""
