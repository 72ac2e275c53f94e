"""What users of the generated conversations say and ask, and what is true."""

from __future__ import annotations

GREETINGS = ("Hello", "Hi", "Good morning", "Good evening")
THANKS = ("Thank you!", "Thanks a lot.", "Thanks for your help.")

Told = tuple[tuple[str, ...], tuple[str, ...], str]
"""Values; ways to say one; the answer."""

TELL_NAME: Told = (
    (
        "Anna",
        "Ben",
        "Clara",
        "David",
        "Emma",
        "Felix",
        "Grace",
        "Henry",
        "Iris",
        "Jonas",
        "Laura",
        "Max",
    ),
    ("my name is {}.", "I am {}.", "I'm {}."),
    "Hello, {}. What can I do for you?",
)

NOTES: dict[str, Told] = {
    "colour": (
        ("red", "green", "blue", "yellow", "orange", "purple", "black", "white"),
        (
            "My favourite colour is {}.",
            "I like {} more than any other colour.",
            "The colour that I like best is {}.",
        ),
        "{} is a beautiful colour.",
    ),
    "city": (
        ("London", "Paris", "Rome", "Berlin", "Madrid", "Vienna", "Oslo", "Lisbon"),
        ("I live in {}.", "My home is in {}.", "I have a flat in {}."),
        "{} is a good place to live.",
    ),
    "job": (
        (
            "teacher",
            "nurse",
            "baker",
            "farmer",
            "painter",
            "driver",
            "gardener",
            "writer",
        ),
        ("I work as a {}.", "I am a {}.", "I earn my living as a {}."),
        "A {} always has something to do.",
    ),
    "dog": (
        ("Rex", "Bella", "Rocky", "Luna", "Bruno", "Daisy", "Toby", "Coco"),
        ("I have a dog called {}.", "My dog is called {}.", "We have a dog, {}."),
        "{} is a good name for a dog.",
    ),
}
"""What a user may say about themselves besides the name."""

ASK_NOTES: dict[str, tuple[tuple[str, ...], str, str]] = {
    "name": (
        ("What is my name?", "Do you remember my name?", "Who am I?"),
        "Your name is {}.",
        "You have not told me your name.",
    ),
    "colour": (
        (
            "What is my favourite colour?",
            "Which colour do I like best?",
            "Do you know my favourite colour?",
        ),
        "Your favourite colour is {}.",
        "You have not told me your favourite colour.",
    ),
    "city": (
        ("Where do I live?", "Which city do I live in?", "Do you know where I live?"),
        "You live in {}.",
        "You have not told me where you live.",
    ),
    "job": (
        ("What is my job?", "What do I work as?", "Do you remember my job?"),
        "You work as a {}.",
        "You have not told me your job.",
    ),
    "dog": (
        ("What is my dog called?", "Do you remember the name of my dog?"),
        "Your dog is called {}.",
        "You have not told me about a dog.",
    ),
}
"""Ways to ask; the answer; the answer where the user has not said it."""

ASK_FACTS: dict[str, tuple[dict[str, str], tuple[str, ...], str]] = {
    "capital": (
        {
            "France": "Paris",
            "Italy": "Rome",
            "Germany": "Berlin",
            "Spain": "Madrid",
            "Austria": "Vienna",
            "Norway": "Oslo",
            "Portugal": "Lisbon",
            "Greece": "Athens",
        },
        ("What is the capital of {0}?", "Which city is the capital of {0}?"),
        "{1} is the capital of {0}.",
    ),
    "opposite": (
        {
            "big": "small",
            "hot": "cold",
            "old": "new",
            "fast": "slow",
            "light": "dark",
            "high": "low",
            "long": "short",
            "open": "closed",
        },
        ('What is the opposite of "{0}"?', 'Which word is the opposite of "{0}"?'),
        'The opposite of "{0}" is "{1}".',
    ),
    "legs": (
        {
            "a dog": "four",
            "a bird": "two",
            "a spider": "eight",
            "an ant": "six",
            "a snake": "no",
            "a horse": "four",
        },
        ("How many legs does {0} have?", "Do you know how many legs {0} has?"),
        "{0} has {1} legs.",
    ),
    "colour of": (
        {
            "grass": "green",
            "snow": "white",
            "blood": "red",
            "coal": "black",
            "the sun": "yellow",
            "the sky": "blue",
        },
        ("What colour is {0}?", "Which colour does {0} have?"),
        "{0} is {1}.",
    ),
    "day": (
        {
            "Monday": "Tuesday",
            "Tuesday": "Wednesday",
            "Wednesday": "Thursday",
            "Thursday": "Friday",
            "Friday": "Saturday",
            "Saturday": "Sunday",
            "Sunday": "Monday",
        },
        ("Which day comes after {0}?", "What is the day after {0}?"),
        "{1} comes after {0}.",
    ),
}
"""Facts; ways to ask for one; the answer. {0} is asked for, {1} is true of it."""


def fact(template: str, subject: str, facts: dict[str, str]) -> str:
    """Fill in a question or an answer, and begin it with a capital."""
    text = template.format(subject, facts[subject])
    return text[0].upper() + text[1:]
