"""Lists of pictures, and what folders are taken for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from admil.errors import AdmilError, CorruptFile, InvalidInput
from admil.features import PixelEncoder
from admil.importers import ImageImporter, run_import
from admil.store import BagStore
from tests.features.making import Counting, encoded, picture
from tests.mangling import mangle

from .pictured import importer, listed, one, write
from .sources import read_all


def test_a_list_may_have_a_byte_order_mark_spaces_capitals_and_other_columns(tmp_path: Path) -> None:
    text = '\ufeff Path ,BAG, Label ,note\r\n a.png , x ,1,"one, two"\r\nb.png,x,+1,\r\n'
    bag = one(listed(tmp_path, text))
    assert (bag.label, bag.split, bag.truth) == (1, None, None)
    assert bag.instances == {"path": ["a.png", "b.png"]}


def test_the_lines_of_a_bag_need_not_stand_together(tmp_path: Path) -> None:
    bags = read_all(importer(listed(tmp_path, "bag,path\nx,a.png\ny,b.png\nx,b.png\n")))
    assert list(bags) == ["x", "y"]
    assert bags["x"].instances == {"path": ["a.png", "b.png"]}
    assert np.array_equal(bags["x"].features[1:], bags["y"].features)


def test_boxes_are_parts_and_their_absence_is_all_of_a_picture(tmp_path: Path) -> None:
    text = "bag,path,left,top,right,bottom\nx,a.png,1,2,4,5\nx,a.png,,,,\nx,a.png,0,0,6,5\n"
    path = listed(tmp_path, text)
    encoder = Counting()
    (bag,) = read_all(ImageImporter(path, encoder)).values()
    made = picture(0, 5, 6)
    assert np.array_equal(bag.features, encoder.encode([made[2:5, 1:4], made, made]))
    assert bag.instances is not None
    assert [bag.instances[name] for name in ("left", "top", "right", "bottom")] == [
        [1, 0, 0],
        [2, 0, 0],
        [4, 6, 6],
        [5, 5, 5],
    ]


def test_boxes_are_in_the_upright_picture(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    path = listed(tmp_path, "bag,path,left,top,right,bottom\nx,a.png,0,0,5,6\nx,a.png,1,2,4,6\n")
    write(tmp_path / "a.png", encoded(picture(0, 5, 6), exif=exif))
    upright = picture(0, 5, 6).transpose(1, 0, 2)[:, ::-1]
    encoder = Counting()
    (bag,) = read_all(ImageImporter(path, encoder)).values()
    assert np.array_equal(bag.features, encoder.encode([upright, upright[2:6, 1:4]]))


def test_paths_are_relative_to_the_root_that_is_given(tmp_path: Path) -> None:
    path = listed(tmp_path / "lists", "bag,path\nx,c/a.png\n")
    write(tmp_path / "root" / "c" / "a.png", picture(7))
    opened = importer(path, root=tmp_path / "root")
    assert opened.source.root == str((tmp_path / "root").resolve())
    assert np.array_equal(read_all(opened)["x"].features, PixelEncoder().encode([picture(7)]))
    with pytest.raises(CorruptFile, match=r"bag 'x': there is no file .*lists/c/a\.png"):
        read_all(importer(path))


BAD_LISTS: dict[str, tuple[str | bytes, str]] = {
    "no-bag": (
        "path,label\na.png,1\n",
        "needs a header with a column 'bag' and a column 'path'.*columns are: path, label",
    ),
    "no-path": ("bag,label\nx,1\n", "needs a header .*; its columns are: bag, label"),
    "other-comma": ("bag;path\nx;a.png\n", "separated by a comma; its columns are: bag;path"),
    "blank": ("\n\n", "its columns are: none"),
    "no-lines": ("bag,path\n", "has a header and no lines; it needs one for each instance"),
    "no-id": ("bag,path\nx,a.png\n ,a.png\n", r"list\.csv, line 3: the bag id is empty"),
    "no-file": ("bag,path\nx,\n", r"list\.csv, line 2: the path is empty"),
    "short": ("bag,path\nx\n", "line 2: the path is empty"),
    "half-a-box": (
        "bag,path,left,top,right\nx,a.png,1,1,1\n",
        "a box needs the columns left, top, right, bottom, there is left, top, right only",
    ),
    "words": (
        "bag,path,left,top,right,bottom\nx,a.png,0,0,1,b\n",
        "line 2: a box is four whole numbers, got 0, 0, 1, b",
    ),
    "floats": ("bag,path,left,top,right,bottom\nx,a.png,0,0,1,2.5\n", "a box is four whole numbers"),
    "three": ("bag,path,left,top,right,bottom\nx,a.png,0,0,1,\n", "a box is four whole numbers, got 0, 0, 1, $"),
    "backwards": (
        "bag,path,left,top,right,bottom\nx,a.png,3,0,3,2\n",
        "goes from left to a larger right .* got 3, 0, 3",
    ),
    "left-of-it": ("bag,path,left,top,right,bottom\nx,a.png,-1,0,3,2\n", "from 0 up, got -1, 0, 3, 2"),
    "above": ("bag,path,left,top,right,bottom\nx,a.png,0,-1,3,2\n", "from 0 up, got 0, -1, 3, 2"),
    "outside": (
        "bag,path,left,top,right,bottom\nx,a.png,0,0,7,5\n",
        r"bag 'x': the box \(0, 0, 7, 5\) reaches over the edge of a\.png, 6 x 5 pixels",
    ),
    "label": ("bag,path,label\nx,a.png,maybe\n", r"line 2: expected a label 0 or 1 .*, got 'maybe'"),
    "truth": ("bag,path,instance_label\nx,a.png,2\n", "line 2: expected a label 0 or 1 .*, got '2'"),
    "zero-and-minus": ("bag,path,label\nx,a.png,0\ny,a.png,-1\n", "line 3: labels mix 0 and -1"),
    "labels": (
        "bag,path,label\nx,a.png,1\nx,b.png,0\n",
        "line 3: bag 'x' has label 0 and split None, in its first line 1 and None; all lines of a bag say the same",
    ),
    "splits": (
        "bag,path,split\nx,a.png,train\nx,b.png,test\n",
        "label None and split test, in its first line None and train",
    ),
    "some-truth": (
        "bag,path,instance_label\nx,a.png,1\nx,b.png,\n",
        "1 of the 2 lines of bag 'x' have an instance label",
    ),
    "lying": (
        "bag,path,label,instance_label\nx,a.png,0,1\n",
        "bag 'x' is labelled negative but an instance of it is pos",
    ),
    "not-utf8": (b"bag,path\n\xff,a.png\n", "cannot be read: expected a CSV in UTF-8 with the columns bag and path"),
    "quote": ('bag,path\nx,"a.png', "cannot be read: expected a CSV in UTF-8"),
    "null": ("bag,path\nx,a\0.png\n", "cannot be read: expected a picture in .*null"),
    "gone": ("bag,path\nx,gone.png\n", r"bag 'x': there is no file .*gone\.png"),
    "folder": ("bag,path\nx,.\n", "bag 'x': .* cannot be read as a picture"),
    "parent": (
        "bag,path\nx,../secret.png\n",
        r"bag 'x': the picture \.\./secret\.png lies outside .*; only what is inside",
    ),
    "round-about": ("bag,path\nx,c/../../secret.png\n", "lies outside"),
    "absolute": ("bag,path\nx,/etc/passwd\n", "the picture /etc/passwd lies outside"),
}


@pytest.mark.parametrize("name", BAD_LISTS)
def test_lists_that_are_wrong_say_where(name: str, tmp_path: Path) -> None:
    text, message = BAD_LISTS[name]
    write(tmp_path / "secret.png", picture())
    path = listed(tmp_path / "s", text)
    with pytest.raises(AdmilError, match=message):
        run_import(importer(path), tmp_path / "store")
    assert not (tmp_path / "store" / "store.json").exists()


def test_a_list_that_is_not_there_or_empty_is_named(tmp_path: Path) -> None:
    with pytest.raises(CorruptFile, match=r"there is no file .*gone\.csv; expected a CSV in UTF-8 with the columns"):
        importer(tmp_path / "gone.csv")
    (tmp_path / "empty.csv").touch()
    with pytest.raises(CorruptFile, match=r"empty\.csv is empty; expected a CSV"):
        importer(tmp_path / "empty.csv")


def test_links_that_lead_out_of_the_source_are_not_followed(tmp_path: Path) -> None:
    write(tmp_path / "outside" / "secret.png", picture())
    write(tmp_path / "s" / "a" / "own.png", picture(1))
    (tmp_path / "s" / "a" / "inside.png").symlink_to("own.png")
    (tmp_path / "s" / "b").mkdir()
    (tmp_path / "s" / "b" / "link.png").symlink_to(tmp_path / "outside" / "secret.png")
    (tmp_path / "s" / "c").symlink_to(tmp_path / "outside")
    (tmp_path / "s" / "d").mkdir()
    (tmp_path / "s" / "d" / "circle.png").symlink_to("circle.png")

    report = run_import(importer(tmp_path / "s", skip_errors=True), tmp_path / "store", skip_errors=True)

    store = BagStore.open(tmp_path / "store")
    assert store.ids == ("a",)
    assert [row["path"] for row in store.details("a")] == ["a/own.png", "a/own.png"], "where it leads"
    assert len(report.left_out) == 3
    for bag, said in zip("bcd", report.left_out, strict=True):
        assert f"bag '{bag}'" in said
        assert "lies outside" in said or bag == "d"


def test_a_list_reached_by_a_link_has_its_pictures_beside_it(tmp_path: Path) -> None:
    listed(tmp_path / "real", "bag,path\nx,a.png\n")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    opened = importer(tmp_path / "link" / "list.csv")
    assert opened.source.root == str((tmp_path / "real").resolve())
    assert read_all(opened)["x"].instances == {"path": ["a.png"]}


def test_only_whole_pictures_can_be_cut_into_tiles(tmp_path: Path) -> None:
    for text in (
        "bag,path,left,top,right,bottom\nx,a.png,1,2,4,5\n",
        "bag,path,instance_label\nx,a.png,1\n",
    ):
        with pytest.raises(
            InvalidInput, match="has boxes or instance labels; only whole pictures can be cut into tiles"
        ):
            importer(listed(tmp_path, text), tiles=(2, 2))
    plain = importer(listed(tmp_path, "bag,path,label\nx,a.png,1\nx,b.png,1\n"), tiles=(3, 5))
    (bag,) = read_all(plain).values()
    assert bag.features.shape == (4, 45)
    assert bag.label == 1


def test_mangled_lists_end_in_an_error_of_ours_or_a_sound_store(tmp_path: Path) -> None:
    rows = b"bag,path,label,split,instance_label,left,top,right,bottom\n"
    rows += b"x,a.png,1,train,1,0,0,3,3\nx,b.png,1,train,0,1,1,4,4\ny,a.png,0,test,0,,,,\n"
    others = [rows, b"../../../etc/passwd", b"99999999999999999999", "é\u2028".encode(), b"-1,+1", b'","']
    ends = []
    for case in range(300):
        path = listed(tmp_path, mangle(rows, others, np.random.default_rng([31, case])))
        store, skip_errors = tmp_path / f"store {case}", bool(case % 2)
        try:
            run_import(ImageImporter(path, PixelEncoder(2), skip_errors=skip_errors), store, skip_errors=skip_errors)
        except AdmilError:
            ends.append(False)
        else:
            ends.append(True)
        assert (store / "store.json").exists() or not ends[-1]
        assert not (store / "store.json").exists() or BagStore.open(store).verify() == ()
    assert 10 < sum(ends) < 290
