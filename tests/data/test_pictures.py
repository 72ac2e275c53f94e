"""Pictures in patches: by hand, equal from every source, and every fault by name."""

import io
import json
import struct
import zipfile
import zlib

import numpy as np
import pytest
from PIL import Image

from headwise.data.pictures import open_pictures, to_patches
from headwise.errors import DataError, SettingsError


def numbered(*shape):
    """Return an array of uint8 that counts from 0."""
    return np.arange(np.prod(shape), dtype=np.uint8).reshape(shape)


def save_png(path, pixels):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)
    return path


@pytest.fixture
def folder(tmp_path):
    """Return a folder of two classes with two pictures each, of 4 x 2 RGB pixels."""
    rng = np.random.default_rng(1)
    for label in ("cat", "dog"):
        for number in (1, 2):
            pixels = rng.integers(0, 256, (2, 4, 3), dtype=np.uint8)
            save_png(tmp_path / "pets" / label / f"{number}.png", pixels)
    return tmp_path / "pets"


def message_of(path, patch_size=2, **options):
    with pytest.raises(DataError) as raised:
        open_pictures(path, patch_size, **options)
    return str(raised.value)


def save_npz(path, **arrays):
    np.savez_compressed(path, **arrays)
    return path


def test_the_order_of_patches_by_hand():
    """2 x 4 pixels of one channel: the left patch first, each row by row."""
    pixels = np.array([[0, 1, 2, 3], [4, 5, 6, 7]], dtype=np.uint8)[None, :, :, None]

    assert to_patches(pixels, (2, 2)).tolist() == [0, 1, 4, 5, 2, 3, 6, 7]


def test_all_channels_of_a_pixel_stand_together():
    pixels = numbered(1, 1, 2, 3)
    assert to_patches(pixels, (1, 1)).tolist() == [0, 1, 2, 3, 4, 5]


def test_the_patches_of_a_video_go_frame_by_frame():
    video = numbered(2, 2, 2, 1)
    assert to_patches(video, (2, 1)).tolist() == [0, 2, 1, 3, 4, 6, 5, 7]


def test_a_folder_for_each_class(folder):
    pictures = open_pictures(folder, 2)

    read = list(pictures)

    assert [each.label for each in read] == ["cat", "cat", "dog", "dog"]
    assert read[0].name.endswith("cat/1.png")
    assert (len(pictures), pictures.num_patches, pictures.patch_values) == (4, 2, 12)
    assert pictures.classes == ["cat", "dog"]
    pixels = np.asarray(Image.open(folder / "dog" / "2.png"))
    assert read[3].pixels.tolist() == to_patches(pixels[None], (2, 2)).tolist()
    assert read[3].pixels.dtype == np.uint8


def test_files_that_are_hidden_are_no_pictures(folder):
    (folder / ".DS_Store").touch()
    (folder / "cat" / ".DS_Store").touch()
    assert len(open_pictures(folder, 2)) == 4


@pytest.mark.parametrize("kind", ["tsv", "jsonl"])
def test_a_list_gives_the_same_as_a_folder(folder, kind):
    files = [(f"{label}/{n}.png", label) for label in ("cat", "dog") for n in (1, 2)]
    lines = {
        "tsv": [f"{path}\t{label}" for path, label in files],
        "jsonl": [json.dumps({"path": path, "label": label}) for path, label in files],
    }
    path = folder / f"list.{kind}"
    path.write_text("\n".join(lines[kind]) + "\n\n", encoding="utf-8")

    listed = [(p.pixels.tolist(), p.label) for p in open_pictures(path, 2)]

    path.unlink()
    of_folder = [(p.pixels.tolist(), p.label) for p in open_pictures(folder, 2)]
    assert listed == of_folder


def test_arrays_of_gray_pictures(tmp_path):
    images = numbered(3, 2, 4)
    path = save_npz(tmp_path / "a.npz", images=images, labels=np.array([7, 1, 7]))

    pictures = open_pictures(path, (2, 1))

    assert pictures.classes == ["1", "7"]
    assert [p.label for p in pictures] == ["7", "1", "7"]
    assert [p.name for p in pictures][1] == "a.npz, images[1]"
    assert next(iter(pictures)).pixels.tolist() == [0, 4, 1, 5, 2, 6, 3, 7]


def test_arrays_of_pictures_in_colour_with_labels_as_text(tmp_path):
    images = numbered(2, 2, 2, 3)
    path = save_npz(tmp_path / "a.npz", images=images, labels=np.array(["é", "b"]))

    read = list(open_pictures(path, 2))

    assert [p.label for p in read] == ["é", "b"]
    assert read[1].pixels.tolist() == list(range(12, 24))


def test_arrays_of_videos(tmp_path):
    videos = numbered(2, 3, 2, 2)
    path = save_npz(tmp_path / "a.npz", videos=videos, labels=np.array([0, 1]))

    pictures = open_pictures(path, 2)

    assert (pictures.size.frames, pictures.num_patches) == (3, 3)
    assert next(iter(pictures)).pixels.tolist() == list(range(12))


@pytest.mark.parametrize("stored", [True, False])
def test_the_maximum_is_white(tmp_path, stored):
    """Of numbers from 0 to 16: 16 is 255, 8 is 127.5, rounded to even."""
    images = np.array([[[0.0, 8.0], [16.0, 4.0]]])
    maximum = {"maximum": np.float64(16)} if stored else {}
    path = save_npz(tmp_path / "a.npz", images=images, labels=[1], **maximum)

    (picture,) = open_pictures(path, 2, maximum=None if stored else 16)

    assert picture.pixels.tolist() == [0, 128, 255, 64]


def test_bytes_can_have_another_maximum(tmp_path):
    images = np.array([[[0, 1]]], dtype=np.uint8)
    path = save_npz(tmp_path / "a.npz", images=images, labels=[1])
    (picture,) = open_pictures(path, 1, maximum=1)
    assert picture.pixels.tolist() == [0, 255]


def test_a_patch_size_that_does_not_fit_names_what_would(folder):
    with pytest.raises(SettingsError, match="patch sizes 1, 2 would work") as raised:
        open_pictures(folder, 3)
    assert "or pictures of 3 x 3 pixels" in str(raised.value)


@pytest.mark.parametrize("patch_size", [0, -1, (2, 0)])
def test_a_patch_has_a_pixel_at_least(folder, patch_size):
    with pytest.raises(SettingsError, match="must be 1 or more"):
        open_pictures(folder, patch_size)


def test_the_faults_of_a_folder_are_reported_together(folder, tmp_path):
    save_png(folder / "cat" / "large.png", numbered(4, 4, 3))
    save_png(folder / "cat" / "gray.png", numbered(2, 4))
    Image.new("P", (4, 2)).save(folder / "cat" / "palette.png")
    Image.new("1", (4, 2)).save(folder / "cat" / "bits.png")
    Image.fromarray(np.zeros((2, 4), np.uint16)).save(folder / "cat" / "deep.png")
    Image.new("RGB", (4, 2)).save(folder / "cat" / "photo.jpg")
    data = (folder / "dog" / "1.png").read_bytes()
    (folder / "dog" / "short.png").write_bytes(data[:-30])
    (folder / "dog" / "empty.png").touch()
    (folder / "bird").mkdir()
    (folder / "dog" / "small").mkdir()
    save_png(folder / "lonely.png", numbered(2, 4, 3))

    message = message_of(folder)

    assert "(11 faults)" in message
    for name, what in {
        "large.png": "4 x 4 pixels, RGB, but",
        "gray.png": "4 x 2 pixels, L, but",
        "palette.png": "its mode is P; convert it to one of L, RGB, RGBA",
        "bits.png": "its mode is 1; convert",
        "deep.png": "16 bits a channel; convert it to 8 bits",
        "photo.jpg": "not a PNG file; convert it to PNG",
        "short.png": "it cannot be read",
        "empty.png": "not a PNG file",
        "bird": "a class with no picture",
        "small": "a folder in a class",
        "lonely.png": "it lies outside of any class",
    }.items():
        assert any(name in x and what in x for x in message.splitlines()), (name, what)


def test_sixteen_bits_in_colour_are_not_rounded_silently(folder):
    """Pillow reads such a file as 8 bits, without a word."""

    def chunk(kind, data):
        end = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + end

    head = struct.pack(">IIBBBBB", 4, 2, 16, 2, 0, 0, 0)
    body = zlib.compress((b"\0" + bytes(24)) * 2)
    (folder / "cat" / "3.png").write_bytes(
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", body)
        + chunk(b"IEND", b"")
    )
    assert "16 bits a channel" in message_of(folder)


def test_an_animation_is_refused(folder):
    frames = [Image.new("RGB", (4, 2), colour) for colour in ("red", "blue")]
    path = folder / "cat" / "moving.png"
    frames[0].save(path, save_all=True, append_images=frames[1:])
    assert "it is animated" in message_of(folder)


def test_a_decompression_bomb_is_refused(folder, monkeypatch):
    """A limit of 7 pixels, which the pictures of 8 exceed; Pillow warns up to twice."""
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 7)
    assert "more than 7 pixels, Pillow's limit" in message_of(folder)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 2)
    assert "more than 2 pixels, Pillow's limit" in message_of(folder)


def test_a_png_that_ends_anywhere_or_has_any_other_byte_is_at_worst_a_fault(folder):
    """Nothing but ``DataError`` comes of damage, wherever it is."""
    path = folder / "cat" / "1.png"
    whole = path.read_bytes()
    rng = np.random.default_rng(1)
    damaged = [whole[:end] for end in range(len(whole) - 12)]
    for place in range(len(whole)):
        data = bytearray(whole)
        data[place] ^= int(rng.integers(1, 256))
        damaged.append(bytes(data))
    refused = 0
    for data in damaged:
        path.write_bytes(data)
        try:
            open_pictures(folder, 1)
        except DataError:
            refused += 1
    assert refused >= len(damaged) - 12  # the last chunk, IEND, may be damaged


def test_only_the_first_faults_are_listed(tmp_path):
    path = tmp_path / "list.tsv"
    path.write_text("".join(f"{n}.png\ta\n" for n in range(1_050)), encoding="utf-8")

    message = message_of(path)

    assert "(1,050 faults)" in message
    assert message.endswith("- and 1,030 more")


def test_the_faults_of_a_list_are_reported_together_with_their_lines(folder):
    lines = ["cat/1.png\tcat", "cat/2.png", "dog/1.png\t ", "\tdog", "cat/3.png\tcat"]
    lines += ["a\tb\tc", "cat/1.png\tdog", "cat\tcat"]
    path = folder / "list.tsv"
    path.write_text("\n".join(lines), encoding="utf-8")

    message = message_of(path)

    for number, what in {
        2: "cat/2.png: it has no label",
        3: "dog/1.png: it has no label",
        4: "the path is empty",
        5: "cat/3.png: it does not exist",
        6: "3 columns",
        7: "cat/1.png is in line 1 too",
        8: "cat: it is not a file",
    }.items():
        assert f"line {number}: {what}" in message


def test_labels_of_json_lines_may_be_numbers(folder):
    path = folder / "list.jsonl"
    lines = [
        json.dumps({"path": f"cat/{number}.png", "label": number}) for number in (1, 2)
    ]
    path.write_text("\n".join(lines), encoding="utf-8")

    assert [each.label for each in open_pictures(path, 2)] == ["1", "2"]


def test_the_faults_of_json_lines(folder):
    lines = ["nonsense", "[]", '{"label": "a"}', '{"path": "cat/1.png", "label": [3]}']
    lines += ['{"path": "cat/1.png"}', '{"path": "cat/2.png", "label": "a\\nb"}']
    lines += ['{"path": "a\\u0000b", "label": "a"}', "[" * 100_000]
    path = folder / "list.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")

    message = message_of(path)

    for number, what in {
        1: "not JSON",
        2: 'no "path" that is a string',
        3: 'no "path"',
        4: '"label" is [3]; it must be a string or a number',
        5: "cat/1.png: it has no label",
        6: "cat/2.png: its label 'a\\nb' is not one line",
        7: "the path is empty or has a zero byte",
        8: "not JSON",
    }.items():
        assert f"line {number}: {what}" in message


def test_the_faults_of_pixels_are_reported_together(tmp_path):
    images = np.zeros((5, 2, 2))
    images[1, 0, 0] = np.nan
    images[2, 1] = np.inf
    images[3, 1, 1] = 1.5
    images[4, 1, 1] = -0.5
    path = save_npz(tmp_path / "a.npz", images=images, labels=np.arange(5))

    message = message_of(path, maximum=1)

    assert "images[1]: 1 pixel NaN or infinite" in message
    assert "images[2]: 2 pixels NaN or infinite" in message
    assert "images[3]: its values are from 0 to 1.5, but must be from 0 to 1" in message
    assert "images[4]: its values are from -0.5 to 0" in message
    assert "images[0]: its" not in message


def test_pixels_that_are_no_numbers_are_named_though_white_is_not_said(tmp_path):
    images = np.zeros((2, 2, 2))
    images[1, 0, 0] = np.nan
    path = save_npz(tmp_path / "a.npz", images=images, labels=[0, 1])

    message = message_of(path)

    assert "save an array maximum" in message
    assert "images[1]: 1 pixel NaN or infinite" in message


OBJECTS = np.array([1, "a"], dtype=object)
IMAGES = np.zeros((2, 2, 2), np.uint8)
LABELS = np.array([0, 1])


@pytest.mark.parametrize(
    ("arrays", "wanted"),
    [
        ({"images": IMAGES}, "labels: there is no such array"),
        ({"labels": LABELS}, "must have one of the arrays images and videos; it has"),
        (
            {"images": IMAGES, "videos": IMAGES[None], "labels": LABELS},
            "must have one of",
        ),
        ({"images": IMAGES, "labels": OBJECTS}, "labels: an array of objects"),
        ({"images": OBJECTS, "labels": LABELS}, "images: an array of objects"),
        ({"images": IMAGES, "labels": LABELS[:1]}, "1 label of 2 pictures"),
        ({"images": IMAGES, "labels": LABELS[None]}, "the shape is (1, 2)"),
        ({"images": IMAGES, "labels": LABELS / 2}, "they are of float64"),
        ({"images": IMAGES, "labels": np.array(["a", " "])}, "images[1]: it has no la"),
        ({"images": IMAGES[0], "labels": LABELS}, "it must be [N H W] or [N H W C]"),
        (
            {"images": np.zeros((2, 2, 2, 2), np.uint8), "labels": LABELS},
            "images has 2 channels (its last axis); 1, 3, 4 would work",
        ),
        ({"images": IMAGES[:0], "labels": LABELS[:0]}, "images is empty"),
        ({"images": IMAGES > 0, "labels": LABELS}, "images is of bool"),
        ({"images": np.float64(1), "labels": LABELS}, "images has the shape ()"),
        ({"images": IMAGES / 2, "labels": LABELS}, "such as numpy.savez(..., max"),
        ({"images": IMAGES, "labels": LABELS, "maximum": -1}, "must be a number above"),
        ({"images": IMAGES, "labels": LABELS, "maximum": "1"}, "must be one number"),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_arrays_that_are_not_as_they_must_be(tmp_path, arrays, wanted):
    assert wanted in message_of(save_npz(tmp_path / "a.npz", **arrays))


def test_several_faults_of_arrays_are_reported_together(tmp_path):
    path = save_npz(tmp_path / "a.npz", images=IMAGES[0] / 2, labels=OBJECTS)
    assert "(3 faults)" in message_of(path)


def npz_of(path, name, header, data, compression=zipfile.ZIP_DEFLATED):
    """Write a file of valid labels, and one array of this header and data."""
    with zipfile.ZipFile(path, "w", compression) as file:
        labels = io.BytesIO()
        np.save(labels, LABELS)
        file.writestr("labels.npy", labels.getvalue())
        text = repr(header).encode() + b"\n"
        start = b"\x93NUMPY\1\0" + struct.pack("<H", len(text)) + text
        file.writestr(f"{name}.npy", start + data)
    return path


def test_a_header_that_claims_more_than_there_is_allocates_nothing(tmp_path):
    header = {"descr": "|u1", "fortran_order": False, "shape": (1 << 40, 1 << 20, 9)}
    path = npz_of(tmp_path / "a.npz", "images", header, bytes(100))
    assert "but only" in message_of(path)


def test_an_array_that_was_compressed_to_a_bomb_is_refused(tmp_path, monkeypatch):
    from headwise.data import picture_arrays

    monkeypatch.setattr(picture_arrays, "BOMB_BYTES", 100_000)
    header = {"descr": "|u1", "fortran_order": False, "shape": (2, 1_000, 1_000)}
    path = npz_of(tmp_path / "a.npz", "images", header, bytes(2_000_000))
    assert "as of a decompression bomb" in message_of(path)


def test_a_damaged_npz_is_at_worst_a_fault(tmp_path):
    images = np.random.default_rng(1).integers(0, 256, (2, 4, 4), dtype=np.uint8)
    path = save_npz(tmp_path / "a.npz", images=images, labels=LABELS)
    whole = path.read_bytes()
    damaged = [whole[:end] for end in range(0, len(whole), 7)]
    for place in range(len(whole)):
        damaged.append(whole[:place] + bytes([whole[place] ^ 41]) + whole[place + 1 :])
    refused = 0
    for data in damaged:
        path.write_bytes(data)
        try:
            open_pictures(path, 2)
        except DataError:
            refused += 1
    assert refused > len(damaged) / 2


def test_a_maximum_is_for_arrays_alone(folder):
    with pytest.raises(SettingsError, match=r"only for \.npz"):
        open_pictures(folder, 2, maximum=16)


def test_another_file_is_no_source(tmp_path):
    path = save_png(tmp_path / "a.png", numbered(2, 2))
    assert "give a folder with a sub-folder for each class" in message_of(path)
    assert "does not exist" in message_of(tmp_path / "nowhere")


def test_an_empty_folder_and_an_empty_list(tmp_path):
    (tmp_path / "none").mkdir()
    assert "no picture in it" in message_of(tmp_path / "none")
    (tmp_path / "list.tsv").write_text("\n\n")
    assert "no picture in it" in message_of(tmp_path / "list.tsv")


def test_a_picture_that_changed_since_it_was_checked(folder):
    pictures = open_pictures(folder, 2)
    save_png(folder / "dog" / "1.png", numbered(6, 6, 3))
    with pytest.raises(DataError, match="it was 4 x 2 pixels, RGB when checked"):
        list(pictures)
    (folder / "cat" / "1.png").unlink()
    with pytest.raises(DataError, match=r"cat.1\.png: it does not exist"):
        list(pictures)
