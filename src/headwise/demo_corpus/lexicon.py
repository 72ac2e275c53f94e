"""The words of the demo corpus, as data: English, French, and what goes with what.

Categories keep the sentences sensible: nobody drinks a bridge. A table is one string;
each line of it is a row, and the reading functions below say what its columns mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Gender = Literal["m", "f"]


@dataclass(frozen=True, slots=True)
class Noun:
    """A thing with a name: its gender is what the pronoun must know."""

    english: str
    french: str
    gender: Gender
    category: str
    is_mass: bool = False


@dataclass(frozen=True, slots=True)
class Adjective:
    """A quality; ``before`` says that French puts it in front of the noun."""

    english: str
    french: str
    before: bool = False


@dataclass(frozen=True, slots=True)
class Verb:
    """Something to do, to whom, and by whom.

    ``preposition`` is what French, not English, puts before the object. What is
    instant or a state has no "is finding", "is knowing"; and the past of a state is
    one of duration: "knew" is the imparfait.
    """

    english: str
    past: str
    french: str
    subjects: tuple[str, ...]
    objects: tuple[str, ...] = ()
    preposition: str = ""
    is_instant: bool = False
    is_state: bool = False


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _read_nouns(table: str) -> tuple[Noun, ...]:
    """Read lines "category: english french gender, ..."; a star marks mass nouns."""
    nouns = []
    for line in table.strip().splitlines():
        category, _, rest = line.partition(":")
        for entry in rest.split(","):
            english, french, gender = entry.split()
            feminine: Gender = "f" if gender[0] == "f" else "m"
            is_mass = gender.endswith("*")
            nouns.append(Noun(english, french, feminine, category.strip(), is_mass))
    return tuple(nouns)


NOUNS = _read_nouns("""
person: man homme m, boy garçon m, child enfant m, doctor médecin m, friend ami m
person: teacher professeur m, king roi m, father père m, brother frère m
person: uncle oncle m, student étudiant m, lawyer avocat m
person: woman femme f, girl fille f, queen reine f, princess princesse f
person: nurse infirmière f, mother mère f, sister sœur f, aunt tante f
person: lady dame f, actress actrice f
animal: animal animal m, dog chien m, cat chat m, horse cheval m, rabbit lapin m
animal: bird oiseau m, wolf loup m, lion lion m, bear ours m, monkey singe m
animal: donkey âne m, hamster hamster m
animal: mouse souris f, cow vache f, goat chèvre f, turtle tortue f, hen poule f
animal: bee abeille f, ant fourmi f, frog grenouille f, spider araignée f
animal: giraffe girafe f, owl chouette f, goose oie f
ground: bridge pont m, garden jardin m, park parc m, field champ m, path chemin m
ground: street rue f, road route f, river rivière f, square place f, forest forêt f
building: shop magasin m, museum musée m, castle château m, hotel hôtel m
building: garage garage m, tunnel tunnel m
building: room pièce f, house maison f, kitchen cuisine f, church église f
building: school école f, cave grotte f
venue: market marché m, village village m, hospital hôpital m, restaurant restaurant m
venue: beach plage f, station gare f, library bibliothèque f, farm ferme f
height: wall mur m, tree arbre m, rock rocher m
height: hill colline f, mountain montagne f, tower tour f
food: cake gâteau m, egg œuf m, bread pain m*, cheese fromage m*, rice riz m*
food: fish poisson m*
food: apple pomme f, tomato tomate f, carrot carotte f, salad salade f, soup soupe f*
food: meat viande f*
drink: milk lait m*, coffee café m*, tea thé m*, wine vin m*
drink: water eau f*, beer bière f*, lemonade limonade f*
thing: bag sac m, basket panier m, glass verre m, gift cadeau m, piano piano m
thing: box boîte f, chair chaise f, lamp lampe f, bottle bouteille f, table table f
tool: phone téléphone m, computer ordinateur m, pen stylo m, umbrella parapluie m
tool: key clé f, flower fleur f, guitar guitare f, photo photo f
clothing: hat chapeau m, coat manteau m, shirt chemise f, dress robe f
vehicle: bike vélo m, boat bateau m, plane avion m, truck camion m, car voiture f
text: book livre m, newspaper journal m, poem poème m
text: letter lettre f, story histoire f
opening: window fenêtre f, door porte f, gate portail m, drawer tiroir m
""")

UNOWNED = _words("man woman boy girl lady")
"""Nouns that would change their sense: "my woman" is not "ma femme", my wife."""

NAMES: dict[str, Gender] = {
    **dict.fromkeys(("Paul", "Pierre", "Thomas", "Antoine", "Henri"), "m"),
    **dict.fromkeys(("Marie", "Julie", "Sophie", "Anne", "Alice"), "f"),
}


def _read_adjectives(table: str) -> dict[str, Adjective]:
    """Read "english french" entries; a plus marks those that stand before the noun."""
    adjectives = {}
    for entry in table.replace("\n", ",").split(","):
        if entry.strip():
            english, french = entry.split()
            before = french.startswith("+")
            adjectives[english] = Adjective(english, french.lstrip("+"), before)
    return adjectives


ADJECTIVES = _read_adjectives("""
big +grand, small +petit, beautiful +beau, old +vieux, new +nouveau, young +jeune
good +bon, bad +mauvais, long +long
red rouge, black noir, white blanc, green vert, blue bleu, brown brun
tired fatigué, sick malade, lazy paresseux, shy timide, nervous nerveux, weak faible
frightened effrayé, strong fort, fast rapide, slow lent, curious curieux
intelligent intelligent, brave courageux, calm calme, happy heureux, sad triste
rich riche, famous célèbre, kind gentil, polite poli, serious sérieux
wide large, narrow étroit, dark sombre, dangerous dangereux, crowded bondé
high haut, slippery glissant, quiet tranquille, modern moderne, empty vide
salty salé, bitter amer, spicy épicé, hot chaud, cold froid, fresh frais
heavy lourd, fragile fragile, precious précieux, expensive cher, dirty sale
clean propre, useful utile, broken cassé
interesting intéressant, boring ennuyeux, difficult difficile, easy facile
""")

FITTING: dict[str, tuple[str, ...]] = {
    category: tuple(words.split())
    for category, words in {
        "person": "old young tired sick lazy shy nervous strong curious intelligent "
        "brave calm happy sad rich famous kind polite serious",
        "animal": "big small beautiful old young black white brown tired sick lazy shy "
        "nervous weak frightened strong fast slow curious intelligent brave calm",
        "ground": "big small beautiful long wide narrow dark dangerous crowded quiet",
        "building": "big small beautiful old new dark modern empty crowded narrow "
        "dangerous quiet clean dirty famous",
        "venue": "big small beautiful old new modern crowded empty quiet clean famous",
        "height": "big small beautiful old high slippery dangerous",
        "food": "good bad hot cold fresh salty bitter spicy expensive",
        "drink": "good bad hot cold fresh bitter expensive",
        "thing": "big small beautiful old new black white green heavy fragile precious "
        "expensive dirty clean useful broken",
        "tool": "small beautiful new black white blue green fragile precious expensive "
        "useful",
        "clothing": "big small beautiful old new red black white blue green expensive "
        "dirty clean",
        "vehicle": "big small beautiful old new red black white blue green fast slow "
        "expensive dirty modern broken",
        "text": "good bad long new interesting boring difficult easy famous",
        "opening": "big small old new red white blue green heavy dirty clean narrow "
        "broken",
    }.items()
}
"""Which adjectives say something sensible about the nouns of a category."""

WITHOUT_DEGREE = _words("red black white green blue brown broken empty")
"""Adjectives that nobody is very, too or more."""

OPPOSED = tuple(
    _words(words)
    for words in (
        "big small",
        "old new young",
        "good bad",
        "hot cold fresh",
        "red black white green blue brown",
        "wide narrow",
        "happy sad",
        "calm nervous frightened",
        "nervous brave",
        "shy brave",
        "clean dirty",
        "easy difficult",
        "interesting boring",
        "strong weak",
        "fast slow",
        "empty crowded quiet",
    )
)
"""Groups of which nothing is two at once."""

COMPARATIVES = {
    "big": "bigger",
    "small": "smaller",
    "old": "older",
    "strong": "stronger",
    "fast": "faster",
}
"""The comparatives with -er that occur; long adjectives take "more"."""

WITH_HAVE = {"hungry": "faim", "thirsty": "soif", "afraid": "peur", "right": "raison"}
"""States that English is in and French has: "she is hungry", "elle a faim"."""


def _read_verbs(table: str) -> tuple[Verb, ...]:
    """Read "english past french[+preposition] subjects objects flags" lines.

    Subjects are P for persons or PA for persons and animals; "look_for" is two words.
    """
    verbs = []
    for line in table.strip().splitlines():
        english, past, french, subjects, objects, *flags = line.split()
        infinitive, _, preposition = french.partition("+")
        verbs.append(
            Verb(
                english=english.replace("_", " "),
                past=past.replace("_", " "),
                french=infinitive,
                subjects=("person", "animal") if subjects == "PA" else ("person",),
                objects=() if objects == "-" else tuple(objects.split(",")),
                preposition=preposition,
                is_instant="instant" in flags,
                is_state="state" in flags,
            )
        )
    return tuple(verbs)


TRANSITIVE = _read_verbs("""
eat ate manger PA food
drink drank boire P drink
cross crossed traverser PA ground
enter entered entrer+dans PA building
climb climbed escalader PA height
carry carried porter PA thing
buy bought acheter P food,drink,thing,tool,clothing,vehicle,text
sell sold vendre P thing,tool,clothing,vehicle
see saw voir PA person,animal,building,vehicle,height instant
find found trouver PA animal,thing,tool instant
look_for looked_for chercher PA person,animal,food,tool,clothing
watch watched regarder PA person,animal,vehicle
read read lire P text
write wrote écrire P text
open opened ouvrir P opening
close closed fermer P opening
wash washed laver P clothing,vehicle,opening
lose lost perdre P animal,tool,clothing
break broke casser PA thing,opening
forget forgot oublier P tool,clothing,text instant
draw drew dessiner P person,animal,height,ground
visit visited visiter P building,venue
help helped aider P person,animal
meet met rencontrer P person
follow followed suivre PA person,animal,vehicle
hear heard entendre PA person,animal,vehicle instant
prepare prepared préparer P food,drink
choose chose choisir P clothing,vehicle,text
like liked aimer P person,animal,food,drink,text state
know knew connaître P person,venue,text state
have had avoir P animal,tool,clothing,vehicle state
""")

INTRANSITIVE = _read_verbs("""
sleep slept dormir PA -
work worked travailler P -
sing sang chanter P -
dance danced danser P -
run ran courir PA -
walk walked marcher PA -
play played jouer PA -
swim swam nager PA -
cry cried pleurer P -
laugh laughed rire P -
wait waited attendre P -
arrive arrived arriver PA -
leave left partir PA -
fall fell tomber PA -
stay stayed rester PA -
""")

GO = Verb("go", "went", "aller", ("person", "animal"), ("venue",), "à")

WITH_ETRE = _words("aller arriver entrer partir rester tomber")
"""Verbs with être in the passé composé: their participle agrees with the subject."""

MODALS = {"can": "pouvoir", "must": "devoir", "want to": "vouloir"}

NUMBERS = {
    "two": "deux",
    "three": "trois",
    "four": "quatre",
    "five": "cinq",
    "six": "six",
    "seven": "sept",
    "eight": "huit",
    "nine": "neuf",
    "ten": "dix",
}

OFTEN = {
    "often": "souvent",
    "always": "toujours",
    "sometimes": "parfois",
    "rarely": "rarement",
}
MANNER = {
    "slowly": "lentement",
    "quickly": "rapidement",
    "well": "bien",
    "badly": "mal",
}
PREPOSITIONS = {
    "in": "dans",
    "on": "sur",
    "behind": "derrière",
    "in front of": "devant",
    "near": "près de",
}
INSIDE = _words(
    "park garden field forest street river village hospital restaurant library station "
    "shop museum castle hotel garage tunnel room house kitchen church school cave"
)
"""Places that one is in."""

ON_TOP = _words("bridge road path beach")
"""Places that one is on."""

WHEN = {
    "present": {"every day": "tous les jours"},
    "progressive": {"now": "maintenant", "today": "aujourd'hui"},
    "past": {"yesterday": "hier", "this morning": "ce matin"},
    "past progressive": {"yesterday": "hier", "this morning": "ce matin"},
    "future": {"tomorrow": "demain", "tonight": "ce soir"},
    "going": {"tomorrow": "demain", "tonight": "ce soir"},
}
"""For each English tense, the times that go with it."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A scene for "it": what an animal may fail to do, and what may be at fault."""

    verb: Verb
    nouns: tuple[Noun, ...]
    faults: tuple[str, ...]


def _frame(english: str, category: str, faults: str) -> Frame:
    verb = next(verb for verb in TRANSITIVE if verb.english == english)
    nouns = tuple(noun for noun in NOUNS if noun.category == category)
    return Frame(verb, nouns, tuple(faults.split()))


FRAMES = (
    _frame("cross", "ground", "wide dark dangerous"),
    _frame("enter", "building", "dark narrow crowded"),
    _frame("climb", "height", "high slippery"),
    _frame("eat", "food", "salty spicy"),
    _frame("carry", "thing", "heavy fragile"),
)

MOODS = _words("tired sick lazy shy nervous")
"""Adjectives that can only be about the animal, never about the other noun."""
