"""Which of sacreBLEU's tokenizers suits a text: words need not have spaces between.

BLEU counts n-grams of words. Where a script is written without spaces, whole sentences
would be its words, and BLEU nearly always 0; there its n-grams are of characters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

WORDS = "13a"
"""Words between spaces and punctuation, the default of sacreBLEU and of WMT."""

HAN = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"

KANA = "\u3040-\u30ff\u31f0-\u31ff"

SOUTH_EAST_ASIAN = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
"""Thai, Lao, Burmese and Khmer."""

UNSPACED = re.compile(f"[{HAN}{KANA}{SOUTH_EAST_ASIAN}]")

CHINESE = re.compile(f"[{HAN}]")

CHINESE_SHARE = 0.9
"""The least share of Chinese characters by which a text is Chinese: in Japanese more
than a tenth is kana."""


def tokenizer_for(texts: Iterable[str]) -> str:
    """Return the name of the tokenizer for BLEU against ``texts``.

    ``13a`` unless most letters are of a script without spaces between words; then
    ``zh``, sacreBLEU's default for Chinese, or ``char`` for all others.
    """
    letters = unspaced = chinese = 0
    for text in texts:
        letters += sum(map(str.isalpha, text))
        unspaced += len(UNSPACED.findall(text))
        chinese += len(CHINESE.findall(text))
    if 2 * unspaced <= letters:
        return WORDS
    return "zh" if chinese >= CHINESE_SHARE * unspaced else "char"
