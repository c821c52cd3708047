"""PASCAL VOC: pictures as bags, the cells of a grid as instances."""

from __future__ import annotations

import struct
import tarfile
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image

from admil.datasets import VOC_CLASSES, Voc, bag_counts, broken_rules
from admil.datasets.voc import Edges, grid
from admil.errors import AdmilError, CorruptFile, InvalidInput
from admil.features import FeatureCache, PixelEncoder, cache_folder
from admil.importers import run_import
from tests.store.making import files_of

from .raws import SHARED, Built, MeanColour, build, check_seeds, needs_shared, write_voc

BIRD, SHEEP, VOID = 3, 17, 255
Mask = NDArray[np.uint8]


def mask(*areas: tuple[int, int, int, int, int], width: int = 130, height: int = 150) -> Mask:
    """Make a mask; an area is (class, left, top, right, bottom)."""
    made = np.zeros((height, width), np.uint8)
    for value, left, top, right, bottom in areas:
        made[top:bottom, left:right] = value
    return made


def birds(count: int = 5) -> dict[str, Mask]:
    """Make pictures with a bird each, in another cell each, and twice as many without."""
    masks = {}
    for number in range(count):
        left, top = 60 * (number % 2), 75 * (number // 2 % 2)
        masks[f"2007_{number:06d}"] = mask((BIRD, left + 5, top + 5, left + 45, top + 45))
        masks[f"2008_{number:06d}"] = mask()
        masks[f"2009_{number:06d}"] = mask((SHEEP, 0, 0, 100, 100), (VOID, 100, 0, 104, 104))
    return masks


def small(path: Path, seed: int = 0, **options: Any) -> Voc:
    return Voc(path, seed, options.pop("encoder", PixelEncoder(2)), **options)


def one_bird(folder: Path, picture: Mask, **options: Any) -> Built:
    """Build one picture, twice, with two pictures that have no bird."""
    return build(small(write_voc(folder / "raw", pair(picture)), **options), folder / "s")


def pair(picture: Mask) -> dict[str, Mask]:
    return {"one": picture, "same": picture, "without": mask(), "other": mask()}


def positive_cells(built: Built) -> set[int]:
    """Return which cells are positive in both of the pictures of `one_bird`."""
    cells = [set(np.flatnonzero(built.bag(built.store.index.number(name))[1]).tolist()) for name in ("one", "same")]
    assert cells[0] == cells[1]
    return cells[0]


# --- the grid ------------------------------------------------------------------------------------


@given(
    width=st.integers(1, 300),
    height=st.integers(1, 300),
    cell=st.tuples(st.integers(1, 90), st.integers(1, 90)),
    edges=st.sampled_from(["keep", "drop", "merge"]),
)
def test_cells_tile_the_picture(width: int, height: int, cell: tuple[int, int], edges: Edges) -> None:
    covered = np.zeros((height, width), int)
    for left, top, right, bottom in grid(width, height, cell, edges):
        assert 0 <= left < right <= width
        assert 0 <= top < bottom <= height
        covered[top:bottom, left:right] += 1
        if edges == "drop":
            assert (right - left, bottom - top) == (min(cell[0], width), min(cell[1], height))
    if edges == "drop":
        assert covered.max() == 1
        full = [length // step * step or length for length, step in zip((width, height), cell, strict=True)]
        assert covered.sum() == full[0] * full[1]
    else:
        assert (covered == 1).all()


@pytest.mark.parametrize(
    ("edges", "cells"),
    [("keep", 9 * 5), ("drop", 8 * 5), ("merge", 8 * 5)],
)
def test_a_usual_photograph_has_as_many_cells_as_documented(edges: Edges, cells: int) -> None:
    boxes = grid(500, 375, (60, 75), edges)
    assert len(boxes) == cells
    assert boxes[0] == (0, 0, 60, 75)
    assert boxes[1] == (60, 0, 120, 75)  # row by row
    last = {"keep": (480, 300, 500, 375), "drop": (420, 300, 480, 375), "merge": (420, 300, 500, 375)}
    assert boxes[-1] == last[edges]
    assert len(grid(375, 500, (60, 75), edges)) == {"keep": 7 * 7, "drop": 6 * 6, "merge": 6 * 6}[edges]


# --- the rule ------------------------------------------------------------------------------------


def test_a_cell_is_positive_from_five_percent_of_its_pixels(tmp_path: Path) -> None:
    """225 of 60 x 75 pixels are 5 %; of the strip at the right, 10 x 75, that is 38."""
    enough = mask((BIRD, 0, 0, 15, 15), (BIRD, 120, 0, 130, 3), (BIRD, 120, 3, 128, 4), (BIRD, 0, 75, 60, 150))
    too_few = mask((BIRD, 0, 0, 15, 14), (BIRD, 0, 14, 14, 15), (BIRD, 120, 0, 130, 3), (BIRD, 120, 3, 127, 4))
    too_few[75:, :60] = BIRD
    assert [(each[:75, :60] == BIRD).sum() for each in (enough, too_few)] == [225, 224]
    assert [(each[:75, 120:] == BIRD).sum() for each in (enough, too_few)] == [38, 37]
    assert positive_cells(one_bird(tmp_path / "a", enough)) == {0, 2, 3}
    assert positive_cells(one_bird(tmp_path / "b", too_few)) == {3}


def test_cells_are_60_wide_and_75_high_unless_told_otherwise(tmp_path: Path) -> None:
    picture = mask((BIRD, 61, 76, 119, 149), width=300, height=300)
    built = one_bird(tmp_path / "a", picture)
    rows = built.store.details("one")
    assert (rows[0]["right"], rows[0]["bottom"], len(rows)) == (60, 75, 20)
    assert positive_cells(built) == {6}  # second row, second column of five
    turned = one_bird(tmp_path / "b", picture, cell=(75, 60))
    assert len(turned.store.details("one")) == 20
    assert positive_cells(turned) == {4, 5, 8, 9}  # four columns of 75


def test_least_is_an_option(tmp_path: Path) -> None:
    picture = mask((BIRD, 0, 0, 60, 30), (BIRD, 60, 0, 120, 31))
    assert positive_cells(one_bird(tmp_path / "a", picture, least=0.41)) == {1}
    assert positive_cells(one_bird(tmp_path / "b", picture, least=0.4)) == {0, 1}


def test_void_is_never_the_target_and_counts_among_the_pixels_by_default(tmp_path: Path) -> None:
    picture = mask((BIRD, 0, 0, 60, 75), (VOID, 60, 0, 120, 75), (BIRD, 60, 0, 75, 14))
    assert (picture[:75, 60:120] == BIRD).mean() < 0.05
    assert positive_cells(one_bird(tmp_path / "a", picture)) == {0}
    assert positive_cells(one_bird(tmp_path / "b", picture, void="excluded")) == {0, 1}


def test_a_cell_of_void_alone_is_negative(tmp_path: Path) -> None:
    picture = mask((VOID, 0, 0, 130, 150), (BIRD, 60, 75, 120, 150))
    for void in ("counts", "excluded"):
        assert positive_cells(one_bird(tmp_path / void, picture, void=void)) == {4}


def test_a_picture_with_void_alone_shows_no_bird(tmp_path: Path) -> None:
    masks = {**pair(mask((BIRD, 0, 0, 50, 50))), "void": mask((VOID, 0, 0, 130, 150))}
    store = build(small(write_voc(tmp_path / "raw", masks), seed=1), tmp_path / "s").store
    assert set(np.array(store.ids)[store.known_labels == 1]) == {"one", "same"}


def test_other_classes_are_negative(tmp_path: Path) -> None:
    picture = mask((BIRD, 0, 0, 50, 50), (SHEEP, 60, 0, 130, 150))
    assert positive_cells(one_bird(tmp_path / "a", picture)) == {0}
    built = build(small(write_voc(tmp_path / "raw", pair(picture)), target="sheep"), tmp_path / "b")
    assert positive_cells(built) == {1, 2, 4, 5}


def test_a_bird_too_small_for_any_cell_makes_its_best_cell_positive(tmp_path: Path) -> None:
    picture = mask((BIRD, 0, 0, 5, 5), (BIRD, 60, 75, 66, 81))
    assert positive_cells(one_bird(tmp_path, picture)) == {4}


def test_or_its_picture_is_left_out(tmp_path: Path) -> None:
    masks = {**birds(2), "tiny": mask((BIRD, 0, 0, 5, 5))}
    path = write_voc(tmp_path / "raw", masks)
    dataset = small(path, no_cell="leave-out")
    assert "tiny" not in dataset.ids()
    assert dataset.source.options["pictures"] == 6
    assert "tiny" in small(path).ids()


def test_a_bird_that_no_cell_covers_is_in_no_bag(tmp_path: Path) -> None:
    """It is no negative picture, and no positive one can be made of it."""
    path = write_voc(tmp_path / "raw", {**birds(2), "edge": mask((BIRD, 121, 0, 130, 150))})
    for no_cell in ("best", "leave-out"):
        dataset = small(path, edges="drop", no_cell=no_cell)
        assert "edge" not in dataset.ids()
        assert len(dataset.ids()) == 4
    assert "edge" in small(path, edges="keep").ids()
    build(small(path, edges="drop"), tmp_path / "s")


# --- the bags ------------------------------------------------------------------------------------


def test_a_bag_is_a_picture_and_its_instances_are_the_cells(tmp_path: Path) -> None:
    path = write_voc(tmp_path / "raw", birds())
    built = build(small(path, encoder=PixelEncoder(1)), tmp_path / "s")
    assert broken_rules(built.store) == ()
    for number, bag in enumerate(built.store.ids):
        features, truth, rows = built.bag(number)
        assert {row["path"] for row in rows} == {f"JPEGImages/{bag}.jpg"}
        boxes = [(row["left"], row["top"], row["right"], row["bottom"]) for row in rows]
        assert boxes == grid(130, 150, (60, 75))
        picture = birds()[bag]
        for at, (left, top, right, bottom) in enumerate(boxes):
            cell = picture[top:bottom, left:right]
            assert truth[at] == ((cell == BIRD).mean() >= 0.05)
            bright = (20 + 180 * (cell > 0).mean()) / 255
            assert features[at] == pytest.approx(
                np.full(3, bright), abs=0.1
            )  # the encoder squeezes, it does not average evenly
    assert built.store.root_of(built.store.ids[0]) == (path / "VOCdevkit" / "VOC2012").resolve()


def test_as_many_pictures_without_a_bird_as_with_one_split_60_to_40(tmp_path: Path) -> None:
    built = build(small(write_voc(tmp_path / "raw", birds(10))), tmp_path / "s")
    assert [(count.split, count.label, count.bags) for count in bag_counts(built.store)] == [
        ("train", 1, 6),
        ("train", 0, 6),
        ("test", 1, 4),
        ("test", 0, 4),
    ]
    positive = {bag for bag, label in zip(built.store.ids, built.store.known_labels, strict=True) if label}
    assert positive == {name for name in birds(10) if name.startswith("2007")}


def test_the_papers_208_birds_are_split_124_to_84(tmp_path: Path) -> None:
    """0.6 x 208 is 124.8: Table 1 rounds down."""
    mini = np.full((2, 2), BIRD, np.uint8)
    masks = {f"b{number}": mini for number in range(208)} | {f"n{number}": mini * 0 for number in range(230)}
    dataset = small(write_voc(tmp_path / "raw", masks))
    readers = {reader.id: reader.read() for reader in dataset.bags()}
    assert Counter((read.split, read.label) for read in readers.values()) == {
        ("train", 1): 124,
        ("train", 0): 124,
        ("test", 1): 84,
        ("test", 0): 84,
    }


def test_the_defaults_are_those_of_the_paper(tmp_path: Path) -> None:
    assert small(write_voc(tmp_path / "raw", birds())).source.options == {
        "seed": 0,
        "target": "bird",
        "cell": [60, 75],
        "edges": "keep",
        "least": 0.05,
        "void": "counts",
        "no_cell": "best",
        "train_share": 0.6,
        "pictures": 15,
    }
    assert VOC_CLASSES[BIRD - 1] == "bird"
    assert VOC_CLASSES[SHEEP - 1] == "sheep"
    assert len(VOC_CLASSES) == 20
    assert list(VOC_CLASSES) == sorted(VOC_CLASSES)


def test_each_split_has_a_positive_bag_whatever_the_share(tmp_path: Path) -> None:
    path = write_voc(tmp_path / "raw", birds(3))
    for share, train in ((0.01, 1), (0.99, 2)):
        splits = Counter(reader.read().split for reader in small(path, train_share=share).bags())
        assert splits == {"train": 2 * train, "test": 2 * (3 - train)}


def test_progress_counts_the_masks(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    small(write_voc(tmp_path / "raw", birds(2)), on_picture=lambda done, total: seen.append((done, total)))
    assert seen == [(number, 6) for number in range(1, 7)]


def test_masks_in_grey_are_read_like_those_with_a_palette(tmp_path: Path) -> None:
    path = write_voc(tmp_path / "raw", birds())
    first = [reader.read().truth for reader in small(path).bags()]
    for file in (path / "VOCdevkit" / "VOC2012" / "SegmentationClass").iterdir():
        with Image.open(file) as image:
            values = np.asarray(image)
            assert image.mode == "P"
        Image.fromarray(values).save(file)
    for one, other in zip(first, [reader.read().truth for reader in small(path).bags()], strict=True):
        np.testing.assert_array_equal(one, other)


# --- where the files lie -------------------------------------------------------------------------


@pytest.mark.parametrize("above", [("VOCdevkit", "VOC2012"), ("VOCdevkit",), ()])
def test_the_folder_or_one_above_it_may_be_given(above: tuple[str, ...], tmp_path: Path) -> None:
    path = write_voc(tmp_path / "raw", birds())
    assert small(path.joinpath(*above)).ids() == small(path).ids()
    assert small(tmp_path).ids() == small(path).ids()


def test_the_archive_is_unpacked_into_the_cache_but_for_what_is_not_needed(tmp_path: Path) -> None:
    path = write_voc(tmp_path / "raw", birds())
    (path / "VOCdevkit" / "VOC2012" / "Annotations").mkdir()
    (path / "VOCdevkit" / "VOC2012" / "Annotations" / "2007_000000.xml").write_text("<x/>")
    with tarfile.open(tmp_path / "VOCtrainval_11-May-2012.tar", "w") as tar:
        tar.add(path / "VOCdevkit", arcname="VOCdevkit")
    packed = small(tmp_path / "VOCtrainval_11-May-2012.tar")
    run_import(packed, tmp_path / "a")
    run_import(small(path), tmp_path / "b")
    (place,) = (cache_folder() / "raw").iterdir()
    assert place.name.startswith("VOCtrainval_11-May-2012-")
    folder = place / "VOCdevkit" / "VOC2012"
    assert sorted(each.name for each in folder.iterdir()) == ["ImageSets", "JPEGImages", "SegmentationClass"]
    assert packed.source.root == str(folder.resolve())
    one, other = files_of(tmp_path / "a"), files_of(tmp_path / "b")
    assert {name for name in one if one[name] != other[name]} == {"store.json"}  # which names the folder


# --- the same again ------------------------------------------------------------------------------


def test_one_seed_gives_the_same_bytes_and_another_gives_others(tmp_path: Path) -> None:
    path = write_voc(tmp_path / "raw", birds(6))
    check_seeds(lambda seed: small(path, seed), tmp_path / "stores")


def test_features_from_one_cache_are_the_same_bytes_and_are_made_once(tmp_path: Path) -> None:
    path = write_voc(tmp_path / "raw", birds())
    first, second = MeanColour(), MeanColour()
    run_import(small(path, encoder=first, cache=FeatureCache()), tmp_path / "one")
    run_import(small(path, encoder=second, cache=FeatureCache()), tmp_path / "two")
    assert files_of(tmp_path / "one") == files_of(tmp_path / "two")
    assert first.encoded > 0
    assert second.encoded == 0


# --- bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": "dragon"}, "there is no class 'dragon'; choose among aeroplane, .*, tvmonitor"),
        ({"target": "boat"}, r"the list has 0 with and 15 without; choose another target"),
        ({"cell": (0, 75)}, r"a cell has a width and a height of 1 pixel at least, got \(0, 75\)"),
        ({"edges": "cut"}, "edges is one of keep, drop, merge, not 'cut'"),
        ({"void": "target"}, "void is one of counts, excluded, not 'target'"),
        ({"no_cell": "none"}, "no_cell is one of best, leave-out, not 'none'"),
        ({"least": 0.0}, r"least is a share between 0 and 1, got 0\.0"),
        ({"least": 1.0}, r"least is a share between 0 and 1, got 1\.0"),
        ({"train_share": 1.0}, r"train_share is a share between 0 and 1, got 1\.0"),
        ({"train_share": float("nan")}, "train_share is a share between 0 and 1, got nan"),
        ({"seed": -1}, "a seed is a whole number from 0 up, got -1"),
    ],
    ids=str,
)
def test_orders_that_cannot_be_filled_are_refused(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=message):
        small(write_voc(tmp_path / "raw", birds()), **options)


def test_there_must_be_as_many_pictures_without_the_target(tmp_path: Path) -> None:
    masks = {f"b{number}": mask((BIRD, 0, 0, 50, 50)) for number in range(3)} | {"n0": mask(), "n1": mask()}
    with pytest.raises(
        InvalidInput, match="two pictures with a bird at least and as many without, the list has 3 with"
    ):
        small(write_voc(tmp_path / "raw", masks))


@pytest.mark.parametrize(
    ("listed", "message"),
    [
        ("2007_000000\n../../secret\n", r"expected a picture's name on each line \('\.\./\.\./secret' is no name"),
        ("/etc/passwd\n", "'/etc/passwd' is no name of a picture"),
        ("2007_000000 1\n2007_000001 -1\n", "'-1' is no name of a picture"),
        ("2007_000000\n2007_000000\n", "'2007_000000' is there twice"),
        ("2007_999999\n", r"there is no file .*SegmentationClass/2007_999999\.png"),
        ("", "the list has 0 with and 0 without"),
    ],
)
def test_lists_with_other_content_are_refused(listed: str, message: str, tmp_path: Path) -> None:
    path = write_voc(tmp_path / "raw", birds())
    (path / "VOCdevkit" / "VOC2012" / "ImageSets" / "Segmentation" / "trainval.txt").write_text(listed)
    with pytest.raises(AdmilError, match=message):
        small(path)


def png(width: int, height: int) -> bytes:
    """Return a PNG that promises a size and holds next to nothing."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0")) + chunk(b"IEND", b"")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "cannot identify image"),
        (b"GIF89a", "cannot identify image"),
        (png(9_000, 9_000), "it has 9,000 x 9,000 pixels"),
        (png(10_000, 10_000), "decompression bomb"),
        (png(50_000, 50_000), "decompression bomb"),
        (png(20, 20), r"2007_000001\.png cannot be read"),
    ],
    ids=["empty", "gif", "large", "larger", "bomb", "cut"],
)
def test_masks_that_are_damaged_or_huge_are_named(content: bytes, message: str, tmp_path: Path) -> None:
    path = write_voc(tmp_path / "raw", birds())
    (path / "VOCdevkit" / "VOC2012" / "SegmentationClass" / "2007_000001.png").write_bytes(content)
    with pytest.raises(CorruptFile, match=r"2007_000001\.png cannot be read: expected an indexed PNG") as caught:
        small(path)
    assert caught.match(message)


def test_masks_of_colours_or_other_numbers_are_refused(tmp_path: Path) -> None:
    path = write_voc(tmp_path / "raw", birds())
    file = path / "VOCdevkit" / "VOC2012" / "SegmentationClass" / "2007_000001.png"
    Image.new("RGB", (130, 150)).save(file)
    with pytest.raises(CorruptFile, match="its mode is RGB"):
        small(path)
    Image.fromarray(np.full((150, 130), 21, np.uint8)).save(file)
    with pytest.raises(CorruptFile, match="a pixel has value 21"):
        small(path)


def test_pictures_that_are_missing_damaged_or_of_another_size_are_named_when_they_are_read(tmp_path: Path) -> None:
    path = write_voc(tmp_path / "raw", birds(2))
    picture = path / "VOCdevkit" / "VOC2012" / "JPEGImages" / "2007_000001.jpg"
    content = picture.read_bytes()
    dataset = small(path)
    reader = next(reader for reader in dataset.bags() if reader.id == "2007_000001")
    Image.new("RGB", (130, 149)).save(picture)
    with pytest.raises(CorruptFile, match=r"2007_000001\.jpg is 130 x 149, its mask is 130 x 150"):
        reader.read()
    picture.write_bytes(content[:200])
    with pytest.raises(CorruptFile, match=r"2007_000001\.jpg cannot be read as a picture"):
        reader.read()
    picture.unlink()
    with pytest.raises(CorruptFile, match=r"there is no file .*2007_000001\.jpg"):
        reader.read()


def test_a_folder_or_archive_without_the_list_is_refused_by_its_own_name(tmp_path: Path) -> None:
    message = r"there is no ImageSets/Segmentation/trainval\.txt in .*{}; give the folder VOC2012 with all that"
    with pytest.raises(CorruptFile, match=message.format(tmp_path.name)):
        small(tmp_path)
    with tarfile.open(tmp_path / "voc.tar", "w") as tar:
        tar.addfile(tarfile.TarInfo("VOCdevkit/VOC2012/JPEGImages/a.jpg"))
    with pytest.raises(CorruptFile, match=message.format(r"voc\.tar")):
        small(tmp_path / "voc.tar")
    with pytest.raises(CorruptFile, match=message.format("nowhere")):
        small(tmp_path / "nowhere")


def test_an_archive_whose_entries_leave_the_folder_is_refused(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "voc.tar", "w") as tar:
        tar.addfile(tarfile.TarInfo("../../JPEGImages/a.jpg"))
    with pytest.raises(InvalidInput, match=r"voc\.tar has an entry that leaves its folder"):
        small(tmp_path / "voc.tar")


# --- the real pictures ---------------------------------------------------------------------------


@needs_shared
def test_sheep_have_the_documented_counts(tmp_path: Path) -> None:
    built = build(Voc(SHARED / "data", 0, PixelEncoder(1), target="sheep"), tmp_path / "s")
    assert broken_rules(built.store) == ()
    assert [(count.split, count.label, count.bags) for count in bag_counts(built.store)] == [
        ("train", 1, 72),
        ("train", 0, 72),
        ("test", 1, 48),
        ("test", 0, 48),
    ]
    sizes = built.store.index.sizes
    assert 30 < sizes.mean() < 60
    assert min(built.positives("train", 1)) >= 1
