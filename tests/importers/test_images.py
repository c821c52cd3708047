"""Pictures: folders of them, lists of them, tiles cut from them."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image
from torch import nn

from admil.errors import AdmilWarning, CorruptFile, InvalidInput
from admil.features import FeatureCache, ModuleEncoder, Picture, PixelEncoder
from admil.importers import ImageImporter, LabelFile, run_import
from admil.store import BagStore
from tests.features.making import Counting, encoded, picture, png
from tests.mangling import mangle
from tests.store.making import files_of

from .pictured import importer, listed, one, write, write_list
from .sources import read_all


@dataclass(frozen=True)
class Made:
    """A bag of pictures, as all kinds of source have it."""

    id: str
    label: int
    split: str
    pictures: tuple[Picture, ...]
    truth: tuple[int, ...]

    @property
    def features(self) -> NDArray[np.float32]:
        """What `PixelEncoder` makes of them."""
        return np.stack(self.pictures).reshape(len(self.pictures), -1).astype(np.float32) / np.float32(255)


def _bags() -> tuple[Made, ...]:
    sizes = (
        ("a", 1, "train", 3),
        ("b", 0, "train", 1),
        ("c-3", 1, "test", 4),
        ("d d", 0, "test", 2),
        ("é", 1, "new", 2),
    )
    return tuple(
        Made(
            name,
            label,
            split,
            tuple(picture(10 * number + place, 4, 4) for place in range(size)),
            tuple(int(label and place % 2 == 0) for place in range(size)),
        )
        for number, (name, label, split, size) in enumerate(sizes)
    )


BAGS = _bags()


# --- the same bags from every kind of source -----------------------------------------------------


def _folders(folder: Path) -> Path:
    for bag in BAGS:
        for number, made in enumerate(bag.pictures):
            write(folder / "pictures" / bag.id / f"{number}.png", made)
    return folder / "pictures"


def _listed(folder: Path) -> Path:
    """Write a picture per instance into one folder, and a list of them."""
    rows = []
    for bag in BAGS:
        for number, made in enumerate(bag.pictures):
            path = write(folder / "files" / f"{bag.id}.{number}.bmp", encoded(made, "BMP"))
            rows.append(_row(bag, number, path.relative_to(folder).as_posix()))
    return write_list(folder / "list.csv", rows)


def _boxed(folder: Path) -> Path:
    """Write a picture per bag, whose instances are boxes in it."""
    rows = []
    for bag in BAGS:
        write(folder / "sheets" / f"{bag.id}.png", np.concatenate(bag.pictures, axis=1))
        for number in range(len(bag.pictures)):
            box = {"left": 4 * number, "top": 0, "right": 4 * number + 4, "bottom": 4}
            rows.append(_row(bag, number, f"sheets/{bag.id}.png") | box)
    return write_list(folder / "boxes.csv", rows)


def _flat(folder: Path) -> Path:
    for bag in BAGS:
        write(folder / "scans" / f"{bag.id}.tiff", encoded(np.concatenate(bag.pictures, axis=1), "TIFF"))
    return folder / "scans"


def _row(bag: Made, number: int, path: str) -> dict[str, Any]:
    words = {0: "negative", 1: "positive"}
    return {
        "bag": bag.id,
        "path": path,
        "label": words[bag.label],
        "split": bag.split,
        "instance_label": bag.truth[number],
    }


@dataclass(frozen=True)
class Kind:
    """A kind of source; those of folders have no labels."""

    name: str
    write: Callable[[Path], Path]
    path_of: Callable[[Made, int], str]
    tiles: tuple[int, int] | None = None
    boxed: bool = False
    labelled: bool = True

    def open(self, path: Path) -> ImageImporter:
        return importer(path, tiles=self.tiles)

    def labels(self, folder: Path) -> LabelFile | None:
        rows = [{"bag": bag.id, "label": bag.label, "split": bag.split} for bag in BAGS]
        return None if self.labelled else LabelFile(write_list(folder / "labels-of-bags.csv", rows))


KINDS = (
    Kind("folders", _folders, lambda bag, number: f"{bag.id}/{number}.png", labelled=False),
    Kind("listed", _listed, lambda bag, number: f"files/{bag.id}.{number}.bmp"),
    Kind("boxed", _boxed, lambda bag, number: f"sheets/{bag.id}.png", boxed=True),
    Kind("tiles", _flat, lambda bag, number: f"{bag.id}.tiff", tiles=(4, 4), boxed=True, labelled=False),
)

each_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)


@each_kind
def test_all_bags_arrive_with_their_labels_splits_and_truth(kind: Kind, tmp_path: Path) -> None:
    opened = kind.open(kind.write(tmp_path))

    report = run_import(opened, tmp_path / "store", labels=kind.labels(tmp_path))

    assert (report.added, report.instances, report.present, report.skipped, report.left_out) == (5, 12, 0, 0, ())
    store = BagStore.open(tmp_path / "store")
    assert store.verify() == ()
    assert store.header.features == {"encoder": "pixels", "size": None}
    assert store.header.sources[0].complete
    assert store.header.sources[0].kind == "images"
    for bag in BAGS:
        number = store.index.number(bag.id)
        assert store[bag.id].numpy().tolist() == bag.features.tolist()
        assert (store.known_labels[number], store.splits[number]) == (bag.label, bag.split)
        for place, detail in enumerate(store.details(bag.id)):
            box = {"left": 4 * place, "top": 0, "right": 4 * place + 4, "bottom": 4} if kind.boxed else {}
            assert detail == {"path": kind.path_of(bag, place)} | box
            assert (store.root_of(bag.id) / detail["path"]).is_file()
    truth = {bag: tuple(map(int, values)) for bag, values in store.truth_rows()}
    assert truth == ({bag.id: bag.truth for bag in BAGS} if kind.labelled else {})


@each_kind
def test_ids_name_the_bags_in_order(kind: Kind, tmp_path: Path) -> None:
    opened = kind.open(kind.write(tmp_path))
    assert opened.ids() == [bag.id for bag in BAGS]
    for _ in range(2):
        assert [bag.id for bag in opened.bags()] == opened.ids(), "bags can be asked for twice"


@each_kind
def test_the_same_import_again_changes_no_file(kind: Kind, tmp_path: Path) -> None:
    path = kind.write(tmp_path)
    run_import(kind.open(path), tmp_path / "store", labels=kind.labels(tmp_path))
    before = files_of(tmp_path / "store")

    report = run_import(kind.open(path), tmp_path / "store", labels=kind.labels(tmp_path))

    assert (report.added, report.present) == (0, 5)
    assert files_of(tmp_path / "store") == before


@each_kind
def test_a_stopped_import_goes_on_to_the_store_of_one_that_was_not(kind: Kind, tmp_path: Path) -> None:
    path, labels = kind.write(tmp_path), kind.labels(tmp_path)
    run_import(kind.open(path), tmp_path / "whole", labels=labels, part_bytes=600)

    for bag in (4, 3, 1):
        with pytest.raises(KeyboardInterrupt):
            run_import(kind.open(path), tmp_path / "store", labels=labels, part_bytes=600, on_bag=stop_at(bag))
    report = run_import(kind.open(path), tmp_path / "store", labels=labels, part_bytes=600)

    assert 0 < report.present < 5, "some parts were finished"
    assert files_of(tmp_path / "store") == files_of(tmp_path / "whole")


@each_kind
def test_bags_that_are_passed_over_do_not_shift_the_others(kind: Kind, tmp_path: Path) -> None:
    some = [BAGS[1], BAGS[3], BAGS[4]]
    rows = [{"bag": bag.id, "label": bag.label} for bag in some]
    labels = LabelFile(write_list(tmp_path / "some.csv", rows))

    report = run_import(kind.open(kind.write(tmp_path)), tmp_path / "store", labels=labels, missing="skip")

    assert (report.added, report.skipped) == (3, 2)
    store = BagStore.open(tmp_path / "store")
    for bag in some:
        np.testing.assert_array_equal(store[bag.id].numpy(), bag.features)


@each_kind
def test_files_of_one_name_in_two_places_are_two_sources(kind: Kind, tmp_path: Path) -> None:
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    here, there = (kind.open(kind.write(tmp_path / name)).source for name in ("here", "there"))
    assert not here.same(there)
    assert here.same(kind.open(Path(here.place or "")).source)
    assert here.root != there.root


def stop_at(bag: int) -> Callable[[int, int], None]:
    def on_bag(seen: int, of: int) -> None:
        assert of == len(BAGS)
        if seen == bag:
            raise KeyboardInterrupt

    return on_bag


# --- folders -------------------------------------------------------------------------------------


def test_only_pictures_that_show_themselves_are_read_in_the_order_of_their_names(tmp_path: Path) -> None:
    for name in ("10.PNG", "9.png", "a.jpeg"):
        write(tmp_path / "s" / "bag" / name, encoded(picture(), "JPEG" if name == "a.jpeg" else "PNG"))
    for name in (".hidden.png", "notes.txt", "inner/deep.png", "folder.png/x"):
        write(tmp_path / "s" / "bag" / name, b"not read")
    for name in ("labels.csv", ".DS_Store", ".git/x.png"):
        write(tmp_path / "s" / name, b"not read")
    assert importer(tmp_path / "s").ids() == ["bag"]
    said = r"passed over in .*/s: not named like pictures: 1, first .*/s/bag/notes\.txt; hidden: 3; folders .*: 2$"
    with pytest.warns(AdmilWarning, match=said) as warned:
        instances = one(tmp_path / "s").instances
    assert instances == {"path": ["bag/10.PNG", "bag/9.png", "bag/a.jpeg"]}
    assert len(warned) == 1


def test_what_lies_beside_pictures_that_are_bags_is_counted_too(tmp_path: Path) -> None:
    for name in ("a.png", "b.png"):
        write(tmp_path / "s" / name, picture(0, 4, 4))
    for name in ("Thumbs.db", ".DS_Store", "labels.csv"):
        write(tmp_path / "s" / name, b"not read")
    with pytest.warns(AdmilWarning, match=r"/s: not named like pictures: 1, first .*Thumbs\.db; hidden: 1$"):
        assert list(read_all(importer(tmp_path / "s", tiles=(4, 4)))) == ["a", "b"]


def test_what_is_passed_over_is_not_told_of_where_no_bag_was_read(tmp_path: Path) -> None:
    write(tmp_path / "s" / "bag" / "a.png", picture())
    write(tmp_path / "s" / ".DS_Store", b"not read")
    with pytest.warns(AdmilWarning, match="hidden: 1"):
        run_import(importer(tmp_path / "s"), tmp_path / "store")
    assert run_import(importer(tmp_path / "s"), tmp_path / "store").present == 1


def test_tiles_are_cut_from_the_pictures_of_folders_too(tmp_path: Path) -> None:
    made = [picture(number, 4, 6) for number in range(2)]
    for number, each in enumerate(made):
        write(tmp_path / "s" / "bag" / f"{number}.png", each)
    opened = importer(tmp_path / "s", tiles=(4, 4))
    assert opened.source.options == {"tiles": [4, 4], "stride": [4, 4], "edge": "shift"}
    (bag,) = read_all(opened).values()
    expected = [each[:, left : left + 4] for each in made for left in (0, 2)]
    assert np.array_equal(bag.features, PixelEncoder().encode(expected))
    assert bag.instances == {
        "path": ["bag/0.png", "bag/0.png", "bag/1.png", "bag/1.png"],
        "left": [0, 2, 0, 2],
        "top": [0, 0, 0, 0],
        "right": [4, 6, 4, 6],
        "bottom": [4, 4, 4, 4],
    }


def test_tiles_otherwise_cut_are_another_source(tmp_path: Path) -> None:
    write(tmp_path / "s" / "a.png", picture(0, 8, 8))
    cuts: list[dict[str, Any]] = [
        {"tiles": (4, 4)},
        {"tiles": (4, 2)},
        {"tiles": (4, 4), "stride": (2, 4)},
        {"tiles": (4, 4), "edge": "drop"},
    ]
    sources = [importer(tmp_path / "s", **cut).source for cut in cuts]
    assert not any(one.same(other) for place, one in enumerate(sources) for other in sources[:place])
    assert sources[0].same(importer(tmp_path / "s", tiles=(4, 4), stride=(4, 4)).source)


def test_pictures_that_are_named_alike_are_one_bag_too_many(tmp_path: Path) -> None:
    for name in ("a.png", "a.bmp"):
        write(tmp_path / "s" / name, picture())
    with pytest.raises(InvalidInput, match="bag 'a' comes more than once in s; bag ids must be distinct"):
        run_import(importer(tmp_path / "s", tiles=(2, 2)), tmp_path / "store")


@pytest.mark.parametrize(
    ("names", "options", "message"),
    [
        (
            ["a.png", "bag/b.png"],
            {},
            r"holds pictures \(a\.png, …\) beside folders \(bag, …\); it should hold a folder",
        ),
        (["a.png", "bag/b.png"], {"tiles": (2, 2)}, "holds pictures .* beside folders"),
        (["a.png"], {}, "holds pictures but no folders; put the pictures of each bag into a folder named for it, or"),
        (["notes.txt"], {}, "holds no picture and no folder of pictures"),
        (["notes.txt"], {"tiles": (2, 2)}, "holds no picture and no folder of pictures"),
        (["bag/a.png"], {"root": "x"}, "paths in a folder are relative to it: a root is for a CSV, leave it out"),
        (["bag/a.png"], {"stride": (2, 2)}, "a stride is for tiles: give their size too, or leave it out"),
        (["bag/a.png"], {"threads": 0}, "threads is how many decode pictures, from 1 up, got 0"),
        (["bag/a.png"], {"threads": -1}, "threads is how many decode pictures, from 1 up, got -1"),
        (["bag/a.png"], {"tiles": (0, 4)}, r"the size of tiles is a width and a height .* got \(0, 4\)"),
    ],
)
def test_folders_that_say_nothing_clear_are_refused(
    names: list[str], options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    for name in names:
        write(tmp_path / "s" / name, picture())
    with pytest.raises(InvalidInput, match=message):
        importer(tmp_path / "s", **options)


def test_a_bag_without_a_picture_is_named(tmp_path: Path) -> None:
    write(tmp_path / "s" / "a" / "a.png", picture())
    write(tmp_path / "s" / "b" / "notes.txt", b"none")
    with pytest.raises(InvalidInput, match=r"bag 'b': the folder .*b holds no picture \(\.bmp, \.gif"):
        read_all(importer(tmp_path / "s"))
    report = run_import(importer(tmp_path / "s"), tmp_path / "store", skip_errors=True)
    assert (report.added, len(report.left_out)) == (1, 1)


# --- links ---------------------------------------------------------------------------------------

needs_links = pytest.mark.skipif(sys.platform == "win32", reason="links need a right")


def linked(link: Path, target: Path | str) -> None:
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(target)


@needs_links
def test_links_to_pictures_and_folders_inside_the_source_are_followed(tmp_path: Path) -> None:
    write(tmp_path / "s" / "a" / "1.png", picture())
    linked(tmp_path / "s" / "a" / "2.png", "1.png")
    linked(tmp_path / "s" / "b", "a")
    bags = read_all(importer(tmp_path / "s"))
    assert [bag.instances for bag in bags.values()] == 2 * [{"path": ["a/1.png", "a/1.png"]}]


@needs_links
@pytest.mark.parametrize("link", ["file", "folder"])
def test_a_link_that_leaves_the_source_is_named_with_where_it_leads(link: str, tmp_path: Path) -> None:
    outside = write(tmp_path / "elsewhere" / "1.png", picture())
    write(tmp_path / "s" / "b" / "0.png", picture())
    if link == "file":
        linked(tmp_path / "s" / "a" / "1.png", outside)
    else:
        linked(tmp_path / "s" / "a", outside.parent)
    said = rf"^bag 'a': the picture a/1\.png lies outside {tmp_path}/s, at {outside}; only .*: copy it there, or give"
    with pytest.raises(InvalidInput, match=said):
        run_import(importer(tmp_path / "s"), tmp_path / "store")
    report = run_import(importer(tmp_path / "s", skip_errors=True), tmp_path / "store", skip_errors=True)
    assert (report.added, len(report.left_out)) == (1, 1)


@needs_links
@pytest.mark.parametrize("name", ["a/2.png", "a/more"])
def test_a_link_in_a_bag_that_leads_nowhere_is_named(name: str, tmp_path: Path) -> None:
    write(tmp_path / "s" / "a" / "1.png", picture())
    linked(tmp_path / "s" / name, "/gone/2.png")
    linked(tmp_path / "s" / "a" / ".#lock", "/gone")
    with pytest.raises(InvalidInput, match=rf"the link .*/s/{name} leads to /gone/2\.png, where nothing is: mend or"):
        run_import(importer(tmp_path / "s"), tmp_path / "store")
    with pytest.warns(AdmilWarning, match="hidden: 1; links that lead nowhere: 1"):
        report = run_import(importer(tmp_path / "s", skip_errors=True), tmp_path / "store", skip_errors=True)
    assert (report.added, report.instances) == (1, 1)


@needs_links
@pytest.mark.parametrize("tiles", [None, (4, 4)])
def test_a_link_among_the_bags_that_leads_nowhere_is_named_before_anything_is_read(
    tiles: tuple[int, int] | None, tmp_path: Path
) -> None:
    write(tmp_path / "s" / ("a.png" if tiles else "a/1.png"), picture())
    linked(tmp_path / "s" / "b.png", "b.png")
    with pytest.raises(
        InvalidInput, match=r"the link .*/s/b\.png leads to b\.png, where nothing is: mend or delete it"
    ):
        importer(tmp_path / "s", tiles=tiles)
    with pytest.warns(AdmilWarning, match="links that lead nowhere: 1"):
        assert list(read_all(importer(tmp_path / "s", tiles=tiles, skip_errors=True))) == ["a"]


@needs_links
def test_a_link_in_a_list_that_leads_nowhere_is_named(tmp_path: Path) -> None:
    linked(tmp_path / "gone.png", "nowhere.png")
    with pytest.raises(CorruptFile, match=r"bag 'x': the link .*gone\.png leads to .*nowhere\.png, where nothing is"):
        read_all(importer(listed(tmp_path, "bag,path\nx,gone.png\n")))


# --- pictures that cannot be read ----------------------------------------------------------------


def broken(folder: Path) -> Path:
    """Write bags of good and bad pictures; of bag c nothing can be read."""
    good = picture(0, 4, 4)
    contents: dict[str, Picture | bytes] = {
        "a/1.png": good,
        "a/2.png": encoded(good)[:40],
        "a/3.png": good,
        "b/1.png": good,
        "b/2.png": png(60_000, 60_000),
        "b/3.png": b"",
        "c/1.png": b"no picture",
        "d/1.png": good,
    }
    for name, content in contents.items():
        write(folder / "s" / name, content)
    return folder / "s"


def test_a_picture_that_cannot_be_read_ends_the_import_and_is_named(tmp_path: Path) -> None:
    with pytest.raises(CorruptFile, match=r"^bag 'a': .*2\.png cannot be read as a picture \(.+\)$"):
        run_import(importer(broken(tmp_path)), tmp_path / "store")


def test_pictures_that_cannot_be_read_are_left_out_with_their_reasons_and_counted(tmp_path: Path) -> None:
    report = run_import(importer(broken(tmp_path), skip_errors=True), tmp_path / "store", skip_errors=True)

    assert (report.added, report.instances) == (3, 4)
    said = [
        r"bag 'a': .*a/2\.png cannot be read as a picture",
        r"bag 'b': .*b/2\.png is too large to decode",
        r"bag 'b': .*b/3\.png cannot be read as a picture",
        r"bag 'c' has no instance left; the first: bag 'c': .*c/1\.png cannot be read as a picture",
    ]
    assert len(report.left_out) == len(said)
    for sentence, expected in zip(report.left_out, said, strict=True):
        assert re.search(expected, sentence)
    store = BagStore.open(tmp_path / "store")
    assert store.verify() == ()
    assert [row["path"] for row in store.details("a")] == ["a/1.png", "a/3.png"]
    assert store["b"].tolist() == store["d"].tolist()


def test_boxes_of_a_picture_that_cannot_be_read_are_left_out_one_by_one_with_their_truth(tmp_path: Path) -> None:
    head = "bag,path,left,top,right,bottom,label,instance_label\n"
    text = (
        head + "x,a.png,0,0,2,2,1,0\nx,a.png,0,0,9,2,1,0\nx,gone.png,,,,,1,0\nx,gone.png,,,,,1,1\nx,b.png,1,1,3,3,1,1\n"
    )
    (bag,) = read_all(importer(listed(tmp_path, text), skip_errors=True)).values()
    assert bag.features.shape == (2, 12)
    assert bag.truth is not None
    assert bag.truth.tolist() == [False, True]
    assert bag.instances is not None
    assert bag.instances["path"] == ["a.png", "b.png"]
    assert len(bag.left_out) == 3
    assert "reaches over the edge of a.png" in bag.left_out[0]


def test_a_bomb_is_refused_and_the_limit_is_the_users(tmp_path: Path) -> None:
    write(tmp_path / "s" / "a" / "big.png", png(9_000, 9_000))
    with pytest.raises(InvalidInput, match=r"bag 'a': .*big\.png has 9,000 x 9,000 pixels, more than the 80,000,000"):
        read_all(importer(tmp_path / "s"))
    write(tmp_path / "s" / "a" / "big.png", picture(0, 5, 6))
    with pytest.raises(InvalidInput, match="6 x 5 pixels, more than the 29 allowed"):
        read_all(importer(tmp_path / "s", max_pixels=29))
    assert one(tmp_path / "s", max_pixels=30).features.shape == (1, 90)


def test_pictures_smaller_than_a_tile_can_leave_nothing(tmp_path: Path) -> None:
    write(tmp_path / "s" / "a.png", picture(0, 5, 6))
    with pytest.raises(InvalidInput, match="bag 'a' has no instance left: its pictures are smaller than a tile"):
        read_all(importer(tmp_path / "s", tiles=(7, 5), edge="drop"))
    assert one(tmp_path / "s", tiles=(7, 5)).features.shape == (1, 90)


def test_a_picture_of_too_many_tiles_is_named_before_memory_is_taken(tmp_path: Path) -> None:
    row = b"\0" + bytes(3 * 3_000_000)
    write(tmp_path / "s" / "long.png", png(3_000_000, 1, row))
    with pytest.raises(
        InvalidInput, match="bag 'long': a picture of 3000000 x 1 pixels makes 3,000,000 tiles of 1 x 1"
    ):
        read_all(importer(tmp_path / "s", tiles=(1, 1)))


@pytest.mark.parametrize("count", [2, 70])
def test_pictures_of_several_sizes_need_an_encoder_with_a_size(count: int, tmp_path: Path) -> None:
    for number in range(count):
        write(tmp_path / "s" / "bag" / f"{number:03}.png", picture(number, 4, 4 + number // 64 + (count == 2) * number))
    said = r"pictures of different sizes \(4 x 4, 5 x 4\)" if count == 2 else "its pictures have 48 to 60 features"
    with pytest.raises(InvalidInput, match=f"bag 'bag': {said}.*give (the encoder )?a size"):
        read_all(importer(tmp_path / "s"))
    (bag,) = read_all(ImageImporter(tmp_path / "s", PixelEncoder(2))).values()
    assert bag.features.shape == (count, 12)


class Undefined(Counting):
    """An encoder that divides by nothing now and then."""

    def vector(self, content: Any) -> NDArray[np.float32]:
        found = super().vector(content)
        found[1] = np.nan if content[0, 0, 0] == 0 else found[1]
        return found


def test_features_that_are_no_numbers_are_refused_by_row_and_column(tmp_path: Path) -> None:
    for number, value in enumerate((9, 0, 9)):
        write(tmp_path / "s" / "a" / f"{number}.png", np.full((2, 2, 3), value, np.uint8))
    write(tmp_path / "s" / "b" / "0.png", picture())
    with pytest.raises(InvalidInput, match="features must be finite: bag 'a', row 1 has nan in column 1"):
        run_import(ImageImporter(tmp_path / "s", Undefined()), tmp_path / "store")
    report = run_import(ImageImporter(tmp_path / "s", Undefined()), tmp_path / "store", skip_errors=True)
    assert (report.added, len(report.left_out)) == (1, 1)


# --- encoding ------------------------------------------------------------------------------------


def test_a_store_says_what_encoded_it_and_takes_no_other(tmp_path: Path) -> None:
    path = _folders(tmp_path)
    run_import(ImageImporter(path, Counting("first")), tmp_path / "store")
    assert BagStore.open(tmp_path / "store").header.features == {"encoder": "first"}
    with pytest.raises(InvalidInput, match=r"made otherwise than these: encoder first, against encoder second"):
        run_import(ImageImporter(path, Counting("second")), tmp_path / "store")


def test_a_cache_is_filled_and_used(tmp_path: Path) -> None:
    path, encoder = _folders(tmp_path), Counting()
    run_import(ImageImporter(path, encoder, FeatureCache(tmp_path / "cache")), tmp_path / "one")
    assert sum(encoder.given) == 12
    run_import(ImageImporter(path, encoder, FeatureCache(tmp_path / "cache")), tmp_path / "two")
    assert sum(encoder.given) == 12
    assert files_of(tmp_path / "one") == files_of(tmp_path / "two")


def test_a_cache_that_cannot_be_written_to_ends_the_import_whatever_is_skipped(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="features cannot be kept"):
        run_import(
            ImageImporter(_folders(tmp_path), Counting(), FeatureCache(tmp_path / "file"), skip_errors=True),
            tmp_path / "store",
            skip_errors=True,
        )


def test_few_pictures_wait_for_the_encoder_at_a_time(tmp_path: Path) -> None:
    for number in range(150):
        write(tmp_path / "s" / "bag" / f"{number:03}.png", picture(number, 2, 2))
    encoder = Counting()
    (bag,) = read_all(ImageImporter(tmp_path / "s", encoder)).values()
    assert encoder.given == [64, 64, 22]
    assert np.array_equal(bag.features, encoder.encode([picture(number, 2, 2) for number in range(150)]))


def test_bags_are_encoded_alike_whichever_were_read_before(tmp_path: Path) -> None:
    """A network's last digits vary with the size of a batch: bags never share one."""
    for number in range(40):
        write(tmp_path / "s" / f"{number % 7}" / f"{number:02}.png", picture(number, 20, 20))
    encoder = ModuleEncoder(nn.Sequential(nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Conv2d(16, 32, 3)), 16)
    together = read_all(ImageImporter(tmp_path / "s", encoder))
    for wanted in (["3"], ["0", "5", "6"], ["2", "3", "4"]):
        some = {bag.id: bag.read() for bag in ImageImporter(tmp_path / "s", encoder).bags() if bag.id in wanted}
        assert [some[bag].features.tobytes() for bag in wanted] == [together[bag].features.tobytes() for bag in wanted]


class Patient(Counting):
    """An encoder that waits until a picture of a later bag has been decoded."""

    def __init__(self) -> None:
        super().__init__()
        self.decoded = threading.Semaphore(0)

    def encode(self, contents: Any) -> NDArray[np.float32]:
        if len(self.given) in (1, 2):
            assert self.decoded.acquire(timeout=10)
        return super().encode(contents)


def test_the_next_bag_is_decoded_while_one_is_encoded(tmp_path: Path) -> None:
    encoder, seen = Patient(), set[str]()
    for number in range(4):
        write(tmp_path / "s" / f"{number}" / "0.png", picture(number, 4, 4))

    def note(frame: Any, event: str, argument: object) -> None:
        if event == "return" and frame.f_code.co_name == "read_picture":
            bag = Path(frame.f_locals["source"]).parent.name
            if int(bag) > len(encoder.given) and bag not in seen:
                seen.add(bag)
                encoder.decoded.release()

    threading.setprofile(note)
    try:
        bags = read_all(ImageImporter(tmp_path / "s", encoder))
    finally:
        threading.setprofile(None)
    assert list(bags) == ["0", "1", "2", "3"]
    assert encoder.given == [1, 1, 1, 1]


@pytest.mark.parametrize("threads", [1, 2, 7])
def test_pictures_are_decoded_in_threads_and_stay_in_order(threads: int, tmp_path: Path) -> None:
    path, before = _folders(tmp_path), set(threading.enumerate())
    seen: set[str] = set()

    def note(frame: Any, event: str, argument: object) -> None:
        if frame.f_code.co_name == "read_picture":
            seen.add(threading.current_thread().name)

    threading.setprofile(note)
    try:
        bags = read_all(importer(path, threads=threads))
    finally:
        threading.setprofile(None)
    assert [bags[bag.id].features.tolist() for bag in BAGS] == [bag.features.tolist() for bag in BAGS]
    assert seen
    assert threading.current_thread().name not in seen
    assert set(threading.enumerate()) <= before, "none is left behind"


# --- mangled sources -----------------------------------------------------------------------------


def test_mangled_pictures_are_left_out_and_the_others_are_a_sound_store(tmp_path: Path) -> None:
    made = Image.fromarray(picture(0, 6, 6))
    kinds = {"png": "PNG", "jpg": "JPEG", "gif": "GIF", "bmp": "BMP", "ppm": "PPM", "tif": "TIFF", "webp": "WEBP"}
    files = {ending: encoded(made, kind) for ending, kind in kinds.items()}
    for case in range(350):
        ending = list(files)[case % len(files)]
        data = mangle(files[ending], list(files.values()), np.random.default_rng([30, case]))
        write(tmp_path / "s" / f"bag {case // 10}" / f"{case}.{ending}", data)
    opened = ImageImporter(tmp_path / "s", PixelEncoder(2), skip_errors=True, max_pixels=10_000)

    report = run_import(opened, tmp_path / "store", skip_errors=True)

    store = BagStore.open(tmp_path / "store")
    assert store.verify() == ()
    assert 20 < report.instances < 330
    emptied = sum("has no instance left" in said for said in report.left_out)
    assert report.added + emptied == 35
    assert report.instances + len(report.left_out) - emptied == 350 - 10 * emptied
    assert all(said.startswith("bag 'bag ") for said in report.left_out)
