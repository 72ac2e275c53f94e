"""French forms: agreement, articles, verbs, elision and contraction."""

from __future__ import annotations

import re
from dataclasses import dataclass

from headwise.demo_corpus.lexicon import WITH_ETRE, Adjective, Gender


@dataclass(frozen=True, slots=True)
class Features:
    """Agreement features: gender, number and person."""

    gender: Gender = "m"
    plural: bool = False
    person: int = 3


# An h is mute in every other word of the lexicon.
_ASPIRATED = r"(?:hamster|haut|huit)"
_VOWEL = re.compile(rf"(?!{_ASPIRATED})[aàâeéèêiîoôuûyœh]", re.IGNORECASE)
_ELIDED = re.compile(
    rf"(?<![\w'-])(l(?=[ea])|[dnjmc](?=e)|qu(?=e))[ea] (?={_VOWEL.pattern})",
    re.IGNORECASE,
)
_CONTRACTED = {"de le": "du", "de les": "des", "à le": "au", "à les": "aux"}
_TO_CONTRACT = re.compile(r"(?<![\w'-])(de le|de les|à le|à les)(?![\w'-])")


def begins_with_vowel(word: str) -> bool:
    """Return whether ``word`` causes elision: a vowel sound or a mute h."""
    return _VOWEL.match(word) is not None


def finished(words: str, mark: str) -> str:
    """Elide, contract, capitalise and close a sentence given as spaced full words.

    Elision comes first: "près de le hôtel" must become "près de l'hôtel".
    """
    text = _ELIDED.sub(lambda match: match[1] + "'", " ".join(words.split()))
    text = _TO_CONTRACT.sub(lambda match: _CONTRACTED[match[1]], text)
    return text[0].upper() + text[1:] + (" ?" if mark == "?" else mark)


def plural_of(word: str) -> str:
    """Return the plural of a noun or of a masculine adjective."""
    if word.endswith(("s", "x", "z")):
        return word
    if word.endswith("eau"):
        return word + "x"
    if word.endswith("al"):
        return word[:-2] + "aux"
    return word + "s"


_FEMININES = {
    "beau": "belle",
    "vieux": "vieille",
    "nouveau": "nouvelle",
    "bon": "bonne",
    "long": "longue",
    "blanc": "blanche",
    "gentil": "gentille",
    "frais": "fraîche",
    "amer": "amère",
    "cher": "chère",
}
_BEFORE_VOWEL = {"beau": "bel", "vieux": "vieil", "nouveau": "nouvel"}


def feminine_of(adjective: str) -> str:
    """Return the feminine singular of a masculine adjective or participle."""
    if adjective in _FEMININES:
        return _FEMININES[adjective]
    if adjective.endswith("e"):
        return adjective
    if adjective.endswith("eux"):
        return adjective[:-1] + "se"
    return adjective + "e"


def agreeing(adjective: str, features: Features) -> str:
    """Return the form of an adjective or participle that goes with ``features``."""
    form = feminine_of(adjective) if features.gender == "f" else adjective
    return plural_of(form) if features.plural else form


def with_adjective(noun: str, adjective: Adjective | None, features: Features) -> str:
    """Join noun and adjective, each in its place: "vieil homme", "chat noir"."""
    if adjective is None:
        return noun
    form = agreeing(adjective.french, features)
    if not adjective.before:
        return f"{noun} {form}"
    masculine_singular = features.gender == "m" and not features.plural
    if masculine_singular and begins_with_vowel(noun):
        form = _BEFORE_VOWEL.get(form, form)
    return f"{form} {noun}"


_ARTICLES = {
    # English: masculine, feminine, plural; the last is of a feminine before a vowel
    "the": ("le", "la", "les", "la"),
    "a": ("un", "une", "des", "une"),
    "this": ("ce", "cette", "ces", "cette"),
    "my": ("mon", "ma", "mes", "mon"),
    "your": ("votre", "votre", "vos", "votre"),
    "his": ("son", "sa", "ses", "son"),
    "her": ("son", "sa", "ses", "son"),
    "our": ("notre", "notre", "nos", "notre"),
    "their": ("leur", "leur", "leurs", "leur"),
    "some": ("de le", "de la", "des", "de la"),
}
DETERMINERS = tuple(_ARTICLES)


def determined(determiner: str, noun: str, features: Features) -> str:
    """Put the determiner that ``features`` and the next sound ask for before a noun."""
    masculine, feminine, plural, feminine_before_vowel = _ARTICLES[determiner]
    if features.plural:
        article = plural
    elif features.gender == "f":
        article = feminine_before_vowel if begins_with_vowel(noun) else feminine
    else:
        article = "cet" if masculine == "ce" and begins_with_vowel(noun) else masculine
    return f"{article} {noun}"


_IRREGULAR = {
    # je, il, ils, stem of nous and of the imparfait, stem of the futur, participle
    "être": "suis est sont ét ser été",
    "avoir": "ai a ont av aur eu",
    "aller": "vais va vont all ir allé",
    "pouvoir": "peux peut peuvent pouv pourr pu",
    "devoir": "dois doit doivent dev devr dû",
    "vouloir": "veux veut veulent voul voudr voulu",
    "acheter": "achète achète achètent achet achèter acheté",
    "voir": "vois voit voient voy verr vu",
    "boire": "bois boit boivent buv boir bu",
    "lire": "lis lit lisent lis lir lu",
    "écrire": "écris écrit écrivent écriv écrir écrit",
    "vendre": "vends vend vendent vend vendr vendu",
    "perdre": "perds perd perdent perd perdr perdu",
    "entendre": "entends entend entendent entend entendr entendu",
    "attendre": "attends attend attendent attend attendr attendu",
    "ouvrir": "ouvre ouvre ouvrent ouvr ouvrir ouvert",
    "connaître": "connais connaît connaissent connaiss connaîtr connu",
    "suivre": "suis suit suivent suiv suivr suivi",
    "dormir": "dors dort dorment dorm dormir dormi",
    "courir": "cours court courent cour courr couru",
    "partir": "pars part partent part partir parti",
    "choisir": "choisis choisit choisissent choisiss choisir choisi",
    "rire": "ris rit rient ri rir ri",
}
_ENDINGS = {
    "present": ("e", "", "e", "ons", "ez", "ent"),
    "imparfait": ("ais", "", "ait", "ions", "iez", "aient"),
    "futur": ("ai", "", "a", "ons", "ez", "ont"),
}


def finite(infinitive: str, tense: str, features: Features) -> str:
    """Conjugate: "voir", "futur", third person singular gives "verra".

    The second person is always the polite one, whose verb is plural.
    """
    plural = features.plural or features.person == 2
    index = features.person - 1 + (3 if plural else 0)
    if tense == "present" and infinitive == "être" and index in (3, 4):
        return ("sommes", "êtes")[index - 3]
    ending = _ENDINGS[tense][index]
    if infinitive not in _IRREGULAR:
        stem = infinitive if tense == "futur" else infinitive[:-2]
        softened = stem.endswith("g") and ending[0] in "ao"
        return stem + ("e" if softened else "") + ending
    je, il, ils, stem, futur_stem, _ = _IRREGULAR[infinitive].split()
    if tense == "futur":
        return futur_stem + ending
    if tense == "present" and index not in (3, 4):
        return {0: je, 2: il, 5: ils}[index]
    return stem + ending


def participle(infinitive: str) -> str:
    """Return the past participle, masculine singular."""
    if infinitive in _IRREGULAR:
        return _IRREGULAR[infinitive].split()[-1]
    return infinitive[:-2] + "é"


def verb_group(
    infinitive: str,
    tense: str,
    subject: Features,
    *,
    negation: str = "",
    adverb: str = "",
    clitic: str = "",
    object_before: Features | None = None,
) -> str:
    """Return everything from "ne" to the last verb form, before elision.

    ``tense`` is present, imparfait, futur, passé composé, or an infinitive that is
    conjugated in front of this one (aller, pouvoir, ...). ``negation`` is "", "pas" or
    "jamais". ``object_before`` is an object that stands before an avoir verb, as a
    clitic or through "que": the participle agrees with it.
    """
    if tense in _ENDINGS:
        head, tail = finite(infinitive, tense, subject), ""
        clitic_first = True
    elif tense == "passé composé":
        with_etre = infinitive in WITH_ETRE
        head = finite("être" if with_etre else "avoir", "present", subject)
        agrees_with = subject if with_etre else object_before
        tail = agreeing(participle(infinitive), agrees_with or Features())
        clitic_first = True
    else:
        head, tail = finite(tense, "present", subject), infinitive
        clitic_first = False
    before, between = (clitic, "") if clitic_first else ("", clitic)
    ne = "ne" if negation else ""
    words = (ne, before, head, negation, adverb, between, tail)
    return " ".join(word for word in words if word)
