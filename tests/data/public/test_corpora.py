"""Archives laid out as publishers lay them out become aligned text files."""

import gzip
import hashlib
import io
import json
import tarfile
import zipfile
from dataclasses import replace

import pytest

from headwise import storage
from headwise.data.corpus_reader import read_pairs
from headwise.data.public import iwslt14, tatoeba
from headwise.data.public.catalogue import CORPORA
from headwise.data.public.checksums import digests_of
from headwise.data.public.get import FACTS, get_corpus
from headwise.data.public.multi30k import multi30k
from headwise.data.settings import CorpusSettings
from headwise.errors import DataError, UsageError


def as_stated(corpus, folder):
    """Return ``corpus`` with the checksums of the files in ``folder``."""
    downloads = []
    for each in corpus.downloads:
        content = (folder / each.name).read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        downloads.append(replace(each, sha256=digest, num_bytes=len(content)))
    return replace(corpus, downloads=tuple(downloads))


def write(folder, name, content):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def tar(members, mode="w:gz"):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as opened:
        for name, text in members.items():
            content = text if isinstance(text, bytes) else text.encode()
            info = tarfile.TarInfo(name)
            info.size = len(content)
            opened.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


@pytest.fixture
def get(tmp_path):
    said = []

    def call(corpus, folder, out="out"):
        is_new = get_corpus(
            corpus,
            tmp_path / out,
            downloads=tmp_path / "downloads",
            local=str(folder),
            say=said.append,
        )
        return tmp_path / out, is_new

    call.said = said
    return call


def text(path):
    return path.read_text(encoding="utf-8")


def segments(lines):
    segs = "\n".join(
        f'<seg id="{n}"> {line} </seg>' for n, line in enumerate(lines, start=1)
    )
    return f'<refset setid="x">\n<doc>\n<p>\n{segs}\n</p></doc>\n</refset>\n'


@pytest.fixture
def multi30k_files(tmp_path):
    folder = tmp_path / "published"
    for each in multi30k("de").downloads:
        line = f"{each.name} says hello.\n".encode()
        write(folder, each.name, gzip.compress(line) if each.name[-1] == "z" else line)
    return folder


def test_multi30k_has_raw_and_tokenised_text(get, multi30k_files):
    corpus = as_stated(multi30k("de"), multi30k_files)
    out, is_new = get(corpus, multi30k_files)

    assert is_new
    assert text(out / "train.en") == "multi30k/raw/train.en.gz says hello.\n"
    name = "test_2017_mscoco.lc.norm.tok.de"
    assert text(out / "tok" / name) == f"multi30k/tok/{name} says hello.\n"
    storage.verify(out)
    facts = json.loads(text(out / FACTS))
    assert facts["license"] == corpus.license
    assert facts["downloads"][0]["sha256"] == corpus.downloads[0].sha256


def test_what_is_complete_is_left_alone_and_what_is_damaged_is_made_anew(
    get, multi30k_files
):
    corpus = as_stated(multi30k("de"), multi30k_files)
    out, _ = get(corpus, multi30k_files)
    assert not get(corpus, multi30k_files)[1]

    (out / "train.en").write_bytes(b"changed\n")
    assert get(corpus, multi30k_files)[1]
    assert text(out / "train.en") == "multi30k/raw/train.en.gz says hello.\n"


def test_other_files_are_not_replaced(get, multi30k_files, tmp_path):
    corpus = as_stated(multi30k("de"), multi30k_files)
    write(tmp_path, "mine/notes.txt", b"mine")
    with pytest.raises(UsageError, match="already contains other files"):
        get(corpus, multi30k_files, out="mine")
    out, _ = get(corpus, multi30k_files)
    with pytest.raises(UsageError, match="is multi30k-en-de, not multi30k-en-fr"):
        get(multi30k("fr"), multi30k_files, out=out.name)


def test_a_wrong_file_leaves_no_folder(get, multi30k_files, tmp_path):
    corpus = as_stated(multi30k("de"), multi30k_files)
    write(multi30k_files, corpus.downloads[3].name, b"other")
    with pytest.raises(DataError, match="SHA-256"):
        get(corpus, multi30k_files)
    assert not (tmp_path / "out").exists()


def test_the_published_files_of_multi30k_are_the_ones_that_are_read(
    get, corpora, tmp_path
):
    """Byte for byte, by the SHA-256 that are stated."""
    folder = tmp_path / "published"
    corpus = multi30k("cs")
    for each in corpus.downloads:
        path = corpora / each.name.replace("/raw/", "/")
        if not path.exists():
            path = path.with_name(f"{path.name}.gz")
            write(folder, each.name, gzip.decompress(path.read_bytes()))
        else:
            write(folder, each.name, path.read_bytes())

    out, _ = get(corpus, folder)

    sides = {"source": str(out / "train.en"), "target": str(out / "train.cs")}
    assert sum(1 for _ in read_pairs(CorpusSettings(**sides))) == corpus.num_pairs


def test_tatoeba_is_split(get, tmp_path, monkeypatch):
    monkeypatch.setattr(tatoeba, "set_aside_of", lambda _: {1})
    pairs = [f"Sentence {n}.\tSatz {n}.\tCC-BY" for n in range(5000)]
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as opened:
        opened.writestr("deu.txt", "\n".join(pairs) + "\n")
    write(tmp_path, "published/tatoeba/deu-eng.zip", buffer.getvalue())
    corpus = as_stated(CORPORA["tatoeba-en-de"](), tmp_path / "published")
    with pytest.raises(DataError, match=r"train\.tsv of tatoeba-en-de would have SHA"):
        get(corpus, tmp_path / "published")

    out, _ = get(replace(corpus, digests=None), tmp_path / "published")

    lines = {part: text(out / f"{part}.tsv").count("\n") for part in ("dev", "test")}
    assert lines == {"dev": 2000, "test": 2000}
    assert text(out / "train.tsv").count("\n") == 999
    assert text(out / "set_aside.tsv") == "Sentence 1.\tSatz 1.\n"


def test_both_tatoeba_corpora_must_be_the_ones_that_scores_were_measured_on():
    for name in ("tatoeba-en-de", "tatoeba-en-fr"):
        assert CORPORA[name]().digests == digests_of(name)
        assert {"train.tsv", "dev.tsv", "test.tsv"} <= set(digests_of(name))


@pytest.fixture
def wmt_files(tmp_path):
    """All archives of WMT 2014, English and French, of a few lines each."""
    folder = tmp_path / "published"

    def sides(prefix, lines, suffix=""):
        return {
            f"{prefix}{language}{suffix}": (
                gzip.compress(f"{language} {lines}".encode())
                if suffix
                else f"{language} {lines}"
            )
            for language in ("en", "fr")
        }

    europarl = sides("training/europarl-v7.fr-en.", "A\n\n B\u2028C\r\n")
    europarl["training/europarl-v7.cs-en.en"] = "Czech\n"
    archives = {
        "training-parallel-europarl-v7.tgz": tar(europarl),
        "training-parallel-commoncrawl.tgz": tar(sides("commoncrawl.fr-en.", "D")),
        "training-parallel-nc-v9.tgz": tar(
            sides("training/news-commentary-v9.fr-en.", "E\n")
        ),
        "training-parallel-un.tgz": tar(sides("un/undoc.2000.fr-en.", "F\n")),
        "training-giga-fren.tar": tar(
            sides("giga-fren.release2.fixed.", "G\n", ".gz"), "w"
        ),
        "dev.tgz": tar(
            {
                "dev/newstest2013.en": "H\n",
                "dev/newstest2013.fr": "I\n",
                "dev/newstest2014-fren-src.fr.sgm": segments(["J &amp; K", "L"]),
                "dev/newstest2014-fren-ref.en.sgm": segments(["M", "N"]),
            }
        ),
    }
    for name, content in archives.items():
        write(folder, f"wmt/{name}", content)
    return folder


def test_wmt14_is_the_parts_in_a_row(get, wmt_files):
    corpus = as_stated(CORPORA["wmt14-en-fr"](), wmt_files)
    out, _ = get(corpus, wmt_files)

    expected = "en A\n\n B\u2028C\r\nen D\nen E\nen F\nen G\n"
    assert (out / "train.en").read_bytes().decode() == expected
    assert (out / "train.fr").read_bytes().decode() == expected.replace("en", "fr")
    assert text(out / "newstest2013.fr") == "I\n"
    assert text(out / "newstest2014.fr") == "J & K\nL\n"
    assert text(out / "newstest2014.en") == "M\nN\n"
    assert not [*out.glob("part.*"), *out.glob("*.sgm")]


def test_sides_of_different_lengths_are_refused(get, wmt_files):
    sides = {"commoncrawl.fr-en.en": "one\ntwo\n", "commoncrawl.fr-en.fr": "un\n"}
    write(wmt_files, "wmt/training-parallel-commoncrawl.tgz", tar(sides))
    corpus = as_stated(CORPORA["wmt14-en-fr"](), wmt_files)
    with pytest.raises(DataError, match="2 lines in one language and 1 in the other"):
        get(corpus, wmt_files)


def test_iwslt14_is_prepared_as_by_fairseq(get, tmp_path):
    """46 pairs of fit lengths: the 23rd and 46th are for validation."""
    lines = [f"Satz Nummer {n}, Herr O'Neil & Co." for n in range(46)]
    noise = "<url>http://x</url>\n<talkid>1</talkid>\n<keywords>k</keywords>\n"
    talks = f"<title>Der Titel</title>\n{noise}" + "\n".join(lines) + "\n"
    long = " ".join(["Wort"] * 176)
    german = talks + f"{long}\n\na b c d\n"
    english = talks + f"{long}\nb\na b\n"
    members = {
        "de-en/train.tags.de-en.de": german,
        "de-en/train.tags.de-en.en": english,
    }
    for number, name in enumerate(iwslt14.TESTS):
        for language in ("de", "en"):
            members[f"de-en/IWSLT14.{name}.de-en.{language}.xml"] = segments(
                [f"It’s {language} {number}."]
            )
    write(tmp_path, "published/iwslt14/de-en.tgz", tar(members))

    out, _ = get(CORPORA["iwslt14-de-en"](), tmp_path / "published")

    train, valid = (text(out / f"{x}.de").split("\n")[:-1] for x in ("train", "valid"))
    assert train[:2] == ["der titel", "satz nummer 0 , herr o &apos; neil &amp; co."]
    assert [each.split()[2] for each in valid] == ["21", "44"]
    assert (len(train), len(valid)) == (45, 2)
    assert text(out / "test.en") == "".join(f"it &apos;s en {n} .\n" for n in range(5))
    assert text(out / "train.en").count("\n") == 45
    assert any("160,239" in each for each in get.said), "the count differs"
    assert any("nobody states" in each for each in get.said)
