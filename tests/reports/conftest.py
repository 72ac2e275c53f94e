"""What the tests of reports share: entries as the log has them, pages taken apart."""

import base64
import hashlib
import json
from dataclasses import dataclass, field
from html.parser import HTMLParser

import pytest

from headwise.reports.history import History

NASTY = "</script><img src=x onerror=alert(1)>"

ATTENTION = {
    "source": ["▁a", "</s>"],
    "target": ["▁ein", "▁b", "</s>"],
    "weights": [[0.75, 0.25], [1.0, 0.0], [0.0, 1.0]],
}


def start(step=0, seconds=0.0):
    return {"what": "start", "step": step, "seconds": seconds}


def update(step, loss=2.0, **changes):
    return {
        "what": "update",
        "step": step,
        "loss": loss,
        "learning_rate": 0.001 * step,
        "gradient_norm": 0.5,
        "tokens": 100,
        "seconds": 0.5,
        **changes,
    }


def validation(step, *, loss=1.5, bleu=20.0, best=True, name="now", **changes):
    score = {
        "name": "BLEU",
        "value": bleu,
        "interval": 1.25,
        "signature": "nrefs:1|tok:13a",
        "higher_is_better": True,
    }
    sample = {"source": "a b", "reference": "ein b", "output": f"ein {step}"}
    return {
        "what": "validation",
        "step": step,
        "name": name,
        "loss": loss,
        "perplexity": 4.0,
        "scores": {"bleu": score},
        "samples": [{**sample, "attention": ATTENTION}],
        "best": best,
        "seconds": 0.5 * step,
        **changes,
    }


def note(text):
    return {"what": "note", "text": text}


def end(step, reason="all is done"):
    return {"what": "end", "step": step, "seconds": 0.5 * step, "reason": reason}


def a_run(steps=40, every=10, **changes):
    """Return the entries of a whole run."""
    entries = [start()]
    for step in range(1, steps + 1):
        entries.append(update(step, loss=9.0 / step + 1))
        if step % every == 0:
            entries.append(
                validation(step, bleu=float(step), loss=4.0 / step, **changes)
            )
    return [*entries, end(steps)]


def history_of(entries):
    history = History()
    for entry in entries:
        history.add(entry)
    return history


def write_run(folder, entries, recipe="[training]\nsteps = 40\n"):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "recipe.toml").write_text(recipe, encoding="utf-8")
    lines = [json.dumps(entry, ensure_ascii=False) + "\n" for entry in entries]
    (folder / "log.jsonl").write_text("".join(lines), encoding="utf-8")
    return folder


@dataclass
class Opened(HTMLParser):
    """A page, taken apart; one that is not well nested is refused."""

    text: str
    tags: list = field(default_factory=list)
    words: list = field(default_factory=list)
    open: list = field(default_factory=list)

    VOID = ("meta", "br", "img", "link")

    def __post_init__(self):
        super().__init__(convert_charrefs=True)
        self.feed(self.text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append((self.open[-1] if self.open else "", data))

    def all(self, tag, **wanted):
        return [
            attributes
            for name, attributes in self.tags
            if name == tag
            and all(attributes.get(key) == value for key, value in wanted.items())
        ]

    def said(self, *tags):
        return [data for tag, data in self.words if not tags or tag in tags]

    @property
    def data(self):
        """What the page hands to its script."""
        return [json.loads(text) for text in self.said("script") if text[0] == "{"]


def sha256(text):
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


@pytest.fixture
def finished():
    return history_of(a_run())
