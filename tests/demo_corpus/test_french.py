"""French forms, each as a French speaker would write it."""

import pytest

from headwise.demo_corpus.french import (
    Features,
    agreeing,
    determined,
    feminine_of,
    finished,
    finite,
    participle,
    plural_of,
    verb_group,
    with_adjective,
)
from headwise.demo_corpus.lexicon import (
    ADJECTIVES,
    GO,
    INTRANSITIVE,
    MODALS,
    TRANSITIVE,
)

HE, SHE = Features(), Features("f")
THEY, THEY_F = Features(plural=True), Features("f", plural=True)
ME, US, YOU = Features(person=1), Features(person=1, plural=True), Features(person=2)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("le homme", "L'homme."),  # a mute h
        ("le hamster", "Le hamster."),  # an aspirated h
        ("la école", "L'école."),
        ("la oie", "L'oie."),
        ("le œuf", "L'œuf."),
        ("les hommes", "Les hommes."),
        ("je ai dormi", "J'ai dormi."),
        ("il ne a pas dormi", "Il n'a pas dormi."),
        ("il la a vue", "Il l'a vue."),
        ("ce est Henri", "C'est Henri."),
        ("la lettre que Anne lit", "La lettre qu'Anne lit."),
        ("il dort parce que il est malade", "Il dort parce qu'il est malade."),
        ("le chien de Alice", "Le chien d'Alice."),
        ("pas de eau", "Pas d'eau."),
        ("il ne y a pas de chat", "Il n'y a pas de chat."),
        ("âne et œuf", "Âne et œuf."),
    ],
)
def test_short_words_are_elided_before_a_vowel_or_a_mute_h(words, expected):
    assert finished(words, ".") == expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("près de le musée", "Près du musée."),
        ("près de les murs", "Près des murs."),
        ("près de la gare", "Près de la gare."),
        ("près de le hôtel", "Près de l'hôtel."),  # elision goes before contraction
        ("à le marché", "Au marché."),
        ("à les marchés", "Aux marchés."),
        ("à la école", "À l'école."),
    ],
)
def test_de_and_a_contract_with_le_and_les(words, expected):
    text = finished(words, ".")
    assert text == expected


def test_a_question_mark_stands_apart():
    assert finished("qui est-ce que elle voit", "?") == "Qui est-ce qu'elle voit ?"


@pytest.mark.parametrize(
    ("singular", "plural"),
    [
        ("chien", "chiens"),
        ("animal", "animaux"),
        ("cheval", "chevaux"),
        ("journal", "journaux"),
        ("oiseau", "oiseaux"),
        ("souris", "souris"),
        ("portail", "portails"),
        ("heureux", "heureux"),
    ],
)
def test_plurals(singular, plural):
    assert plural_of(singular) == plural


@pytest.mark.parametrize(
    ("masculine", "feminine"),
    [
        ("petit", "petite"),
        ("rouge", "rouge"),
        ("fatigué", "fatiguée"),
        ("paresseux", "paresseuse"),
        ("blanc", "blanche"),
        ("long", "longue"),
        ("bon", "bonne"),
        ("gentil", "gentille"),
        ("frais", "fraîche"),
        ("cher", "chère"),
        ("amer", "amère"),
        ("beau", "belle"),
        ("vieux", "vieille"),
        ("nouveau", "nouvelle"),
    ],
)
def test_feminines(masculine, feminine):
    assert feminine_of(masculine) == feminine


def test_an_adjective_agrees_in_gender_and_number():
    forms = [agreeing("beau", features) for features in (HE, SHE, THEY, THEY_F)]
    assert forms == ["beau", "belle", "beaux", "belles"]


@pytest.mark.parametrize(
    ("noun", "adjective", "features", "expected"),
    [
        ("chat", "black", HE, "chat noir"),
        ("souris", "white", SHE, "souris blanche"),
        ("chat", "old", HE, "vieux chat"),
        ("homme", "old", HE, "vieil homme"),
        ("oiseau", "beautiful", HE, "bel oiseau"),
        ("hôtel", "new", HE, "nouvel hôtel"),
        ("hamster", "beautiful", HE, "beau hamster"),
        ("oiseaux", "beautiful", THEY, "beaux oiseaux"),
        ("école", "old", SHE, "vieille école"),
        ("hommes", "old", THEY, "vieux hommes"),
    ],
)
def test_an_adjective_takes_its_place_and_form(noun, adjective, features, expected):
    assert with_adjective(noun, ADJECTIVES[adjective], features) == expected


@pytest.mark.parametrize(
    ("determiner", "noun", "features", "expected"),
    [
        ("a", "chien", HE, "un chien"),
        ("a", "rue", SHE, "une rue"),
        ("this", "chien", HE, "ce chien"),
        ("this", "homme", HE, "cet homme"),
        ("this", "hamster", HE, "ce hamster"),
        ("this", "vieil homme", HE, "ce vieil homme"),
        ("this", "école", SHE, "cette école"),
        ("this", "écoles", THEY_F, "ces écoles"),
        ("my", "école", SHE, "mon école"),
        ("my", "vieille école", SHE, "ma vieille école"),
        ("her", "frère", HE, "son frère"),
        ("his", "sœur", SHE, "sa sœur"),
        ("their", "amis", THEY, "leurs amis"),
        ("some", "pommes", THEY_F, "des pommes"),
    ],
)
def test_a_determiner_hears_the_next_word(determiner, noun, features, expected):
    assert determined(determiner, noun, features) == expected


@pytest.mark.parametrize(
    ("infinitive", "tense", "features", "expected"),
    [
        ("manger", "present", HE, "mange"),
        ("manger", "present", US, "mangeons"),
        ("manger", "present", YOU, "mangez"),
        ("manger", "imparfait", HE, "mangeait"),
        ("manger", "imparfait", US, "mangions"),
        ("manger", "futur", THEY, "mangeront"),
        ("acheter", "present", SHE, "achète"),
        ("acheter", "futur", SHE, "achètera"),
        ("acheter", "imparfait", SHE, "achetait"),
        ("voir", "futur", HE, "verra"),
        ("boire", "present", THEY, "boivent"),
        ("boire", "imparfait", HE, "buvait"),
        ("lire", "present", THEY, "lisent"),
        ("connaître", "present", HE, "connaît"),
        ("courir", "futur", HE, "courra"),
        ("rire", "imparfait", HE, "riait"),
        ("suivre", "present", HE, "suit"),
        ("être", "present", US, "sommes"),
        ("être", "present", YOU, "êtes"),
        ("être", "imparfait", YOU, "étiez"),
        ("être", "futur", THEY, "seront"),
        ("avoir", "present", ME, "ai"),
        ("avoir", "present", US, "avons"),
        ("aller", "present", YOU, "allez"),
        ("aller", "futur", HE, "ira"),
        ("pouvoir", "present", US, "pouvons"),
        ("devoir", "present", THEY, "doivent"),
        ("vouloir", "present", ME, "veux"),
        ("oublier", "futur", HE, "oubliera"),
    ],
)
def test_conjugation(infinitive, tense, features, expected):
    assert finite(infinitive, tense, features) == expected


PARTICIPLES = {
    "manger": "mangé",
    "boire": "bu",
    "traverser": "traversé",
    "voir": "vu",
    "lire": "lu",
    "écrire": "écrit",
    "ouvrir": "ouvert",
    "perdre": "perdu",
    "vendre": "vendu",
    "suivre": "suivi",
    "connaître": "connu",
    "dormir": "dormi",
    "courir": "couru",
    "partir": "parti",
    "rire": "ri",
    "choisir": "choisi",
    "entendre": "entendu",
    "attendre": "attendu",
    "avoir": "eu",
    "aller": "allé",
}


def test_participles():
    assert {verb: participle(verb) for verb in PARTICIPLES} == PARTICIPLES


def test_every_verb_not_in_er_has_its_own_row():
    verbs = [verb.french for verb in (*TRANSITIVE, *INTRANSITIVE, GO)]
    for infinitive in (*verbs, *MODALS.values()):
        if not infinitive.endswith("er"):
            assert not participle(infinitive).endswith("é"), infinitive


@pytest.mark.parametrize(
    ("expected", "infinitive", "tense", "subject", "options"),
    [
        ("mange", "manger", "present", HE, {}),
        ("ne mange pas", "manger", "present", HE, {"negation": "pas"}),
        ("ne a jamais vu", "voir", "passé composé", HE, {"negation": "jamais"}),
        ("mange souvent", "manger", "present", HE, {"adverb": "souvent"}),
        ("va manger", "manger", "aller", HE, {}),
        ("ne peux pas voir", "voir", "pouvoir", ME, {"negation": "pas"}),
    ],
)
def test_negation_wraps_the_conjugated_verb(
    expected, infinitive, tense, subject, options
):
    assert verb_group(infinitive, tense, subject, **options) == expected


def test_with_etre_the_participle_agrees_with_the_subject():
    arrived = [
        verb_group("arriver", "passé composé", features)
        for features in (HE, SHE, THEY, THEY_F)
    ]
    assert arrived == [
        "est arrivé",
        "est arrivée",
        "sont arrivés",
        "sont arrivées",
    ]


def test_with_avoir_it_agrees_only_with_an_object_that_stands_before():
    plain = verb_group("voir", "passé composé", SHE)
    before = verb_group(
        "voir", "passé composé", HE, clitic="les", object_before=THEY_F, negation="pas"
    )
    assert plain == "a vu"
    assert before == "ne les a pas vues"


def test_a_clitic_stands_before_the_infinitive():
    group = verb_group("voir", "aller", HE, clitic="la", negation="pas")
    assert group == "ne va pas la voir"
