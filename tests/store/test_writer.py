"""Adding bags: what is taken, what is refused and by which name, and what a failure leaves behind."""

from __future__ import annotations

import errno
import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import scipy.sparse
import torch

from admil.errors import CorruptFile, InvalidInput
from admil.store import BagStore, Source, StoreWriter
from tests.store.making import Given, content_of, files_of, full, rows, written


def opened(folder: Path, *given: Given, **options: Any) -> BagStore:
    """Write bags with a `StoreWriter` of the given options; open the store."""
    with StoreWriter(folder, **options) as writer:
        for each in given:
            each.add(writer)
    return BagStore.open(folder)


# --- features ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "features",
    [
        np.array([[1.0, 2.0], [3.0, 0.0]]),
        np.array([[1, 2], [3, 0]], dtype=np.int64),
        np.array([[1, 2], [3, 0]], dtype=np.uint8),
        np.array([[1, 2], [3, 0]], dtype=">f4"),
        np.array([[1, 2], [3, 0]], dtype=np.longdouble),
        np.asfortranarray(np.array([[1, 2], [3, 0]], dtype=np.float32)),
        np.array([[1, 2], [3, 0], [9, 9]], dtype=np.float32)[:2],
        np.frombuffer(np.array([[1, 2], [3, 0]], dtype=np.float32).tobytes(), np.float32).reshape(2, 2),
        [[1.0, 2.0], [3.0, 0.0]],
        torch.tensor([[1.0, 3.0], [2.0, 0.0]]).T,
        torch.tensor([[1.0, 2.0], [3.0, 0.0]], requires_grad=True),
        torch.tensor([[1.0, 2.0], [3.0, 0.0]]).to_sparse(),
        scipy.sparse.csr_matrix([[1.0, 2.0], [3.0, 0.0]]),
    ],
    ids=str,
)
def test_features_are_taken_in_any_form_and_kept_in_float32(features: Any, tmp_path: Path) -> None:
    store = opened(tmp_path, Given("a", features))
    assert store.header.dtype == "float32"
    assert store["a"].tolist() == [[1, 2], [3, 0]]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_features_stay_in_the_type_they_come_in(dtype: Any, tmp_path: Path) -> None:
    features = rows(3).to(getattr(torch, dtype))
    store = opened(tmp_path, Given("a", features))
    assert store.header.dtype == dtype
    assert store["a"].dtype == features.dtype
    assert torch.equal(store["a"], features)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_features_of_any_type_become_the_type_that_is_named(dtype: Any, tmp_path: Path) -> None:
    given = [Given(str(each), rows(2).to(each)) for each in (torch.float16, torch.bfloat16, torch.float64)]
    store = opened(tmp_path, *given, dtype=dtype)
    for each in given:
        assert torch.equal(store[each.bag], each.features.to(getattr(torch, dtype)))


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (np.zeros((0, 3)), "bag 'b' is empty; a bag needs at least one instance: leave it out"),
        (np.zeros((2, 0)), r"bag 'b': expected \(n, D\) features, one row per instance, got shape \(2, 0\)"),
        (np.zeros(3), r"bag 'b': expected \(n, D\) features, one row per instance, got shape \(3,\)"),
        (np.zeros((1, 3, 1)), r"bag 'b': .* got shape \(1, 3, 1\)"),
        (
            np.zeros((1, 3), dtype=complex),
            r"bag 'b': expected an \(n, D\) array of numbers, got ndarray of complex128",
        ),
        (torch.zeros((1, 3), dtype=torch.complex64), r"bag 'b': .* array of numbers, got a tensor of torch\.complex64"),
        (np.array([["a", "b", "c"]]), r"bag 'b': expected an \(n, D\) array of numbers, got ndarray of <U1"),
        ([[1, 2, 3], [1]], r"bag 'b': expected an \(n, D\) array of numbers, got list"),
        (None, r"bag 'b': expected an \(n, D\) array of numbers, got NoneType"),
        (np.zeros((1, 4), np.float32), "the store has 3, bag 'b' has 4"),
        (torch.zeros((1, 3)).half(), r"bag 'b' comes in float16, the store keeps float32; .*\(dtype=…, --dtype\)"),
        (np.array([[0, 1, 2], [0, np.nan, 2]]), "features must be finite: bag 'b', row 1 has nan in column 1"),
        (torch.tensor([[0.0, 0.0, -torch.inf]]), "bag 'b', row 0 has -inf in column 2; replace or drop it"),
        (np.array([[0, 0, 1e300]]), r"bag 'b': row 0 has 1e\+300 in column 2, too large for float32$"),
    ],
)
def test_features_that_cannot_be_are_refused_and_others_may_follow(features: Any, message: str, tmp_path: Path) -> None:
    with BagStore.create(tmp_path) as writer:
        writer.add("a", rows(1))
        with pytest.raises(InvalidInput, match=message):
            writer.add("b", features)
        writer.add("b", rows(2))
    store = BagStore.open(tmp_path)
    assert store.ids == ("a", "b")
    assert torch.equal(store["b"], rows(2))
    assert store.verify() == ()


def test_a_value_too_large_for_float16_says_what_would_hold_it(tmp_path: Path) -> None:
    message = "bag 'a': row 0 has 70000 in column 0, too large for float16; keep float32 or bfloat16"
    with pytest.raises(InvalidInput, match=message):
        opened(tmp_path, Given("a", np.array([[7e4]])), dtype="float16")


def test_a_row_is_named_in_a_bag_so_large_that_it_is_looked_at_in_pieces(tmp_path: Path) -> None:
    features = torch.zeros((9, 2**20), dtype=torch.float16)
    features[7, 5] = torch.nan
    with BagStore.create(tmp_path) as writer:
        with pytest.raises(InvalidInput, match="bag 'a', row 7 has nan in column 5"):
            writer.add("a", features)
        features[7, 5] = 3
        writer.add("a", features)
    store = BagStore.open(tmp_path)
    assert torch.equal(store["a"], features)
    assert store.verify() == ()


def test_a_first_bag_that_is_refused_decides_nothing(tmp_path: Path) -> None:
    with BagStore.create(tmp_path) as writer:
        with pytest.raises(InvalidInput, match="truth values"):
            writer.add("a", rows(1, width=5).half(), truth=np.zeros(9, dtype=bool), instances={"text": ["x"]})
        writer.add("b", rows(1, width=2), instances={"x": [1.0]})
    store = BagStore.open(tmp_path)
    assert (store.width, store.header.dtype, store.details("b")) == (2, "float32", [{"x": 1.0}])


# --- what else is said of a bag ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bag": ""}, "a bag id is a non-empty text, got ''"),
        ({"bag": 7}, "a bag id is a non-empty text, got 7"),
        ({"bag": "a"}, "bag 'a' is in the store already; bag ids must be distinct"),
        ({"bag": "\udcff.h5"}, r"bag '\\udcff\.h5': its id or split is no valid Unicode text; rename it"),
        ({"split": 1}, "bag 'b': a split is a non-empty text or None, got 1"),
        ({"split": ""}, "bag 'b': a split is a non-empty text or None, got ''"),
        ({"label": 2}, r"bag 'b': expected a label 0, 1 or None \(not known\), got 2"),
        ({"label": -1}, "bag 'b': expected a label 0, 1 or None .*, got -1"),
        ({"label": "1"}, "bag 'b': expected a label 0, 1 or None .*, got '1'"),
        ({"label": float("nan")}, "bag 'b': expected a label 0, 1 or None .*, got nan"),
        ({"instances": {"x": [1.0]}}, "bag 'b': column 'x' has 1 values for 2 instances"),
        ({"instances": {"bag": [1, 2]}}, "bag 'b': an instance column cannot be named 'bag'; rename it"),
        ({"instances": {"": [1, 2]}}, "bag 'b': an instance column cannot be named ''; rename it"),
        ({"instances": {"\ud8ce": [1, 2]}}, r"bag 'b': an instance column cannot be named '\\ud8ce'; rename it"),
        ({"instances": {"left": ["a", "b"]}}, "bag 'b': the values of instance column 'left' do not fit int32"),
        ({"instances": {"new": [1, 2]}}, r"bag 'b' brings instance column 'new', .* did not have \(text, x\)"),
        ({"instances": {"text": ["\udcff", "b"]}}, "bag 'b': the values of instance column 'text' do not fit string"),
        ({"truth": np.array([1, 0, 0])}, r"bag 'b': expected 2 truth values 0 or 1, .* got shape \(3,\)"),
        ({"truth": np.array([2, 0])}, "bag 'b': expected 2 truth values 0 or 1"),
        ({"label": 0, "truth": np.array([0, 1])}, "bag 'b' is labelled negative but an instance of it is positive"),
        ({"label": 1, "truth": np.array([0, 0])}, "bag 'b' is labelled positive but no instance of it is positive"),
    ],
)
def test_what_cannot_be_said_of_a_bag_is_refused_by_its_name(
    change: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with BagStore.create(tmp_path) as writer:
        writer.add("a", rows(1), instances={"text": ["one"], "x": [0.5]})
        with pytest.raises(InvalidInput, match=message):
            writer.add(**{"bag": "b", "features": rows(2), **change})
    assert BagStore.open(tmp_path).ids == ("a",)


@pytest.mark.parametrize("label", [True, 1.0, np.int64(1), np.bool_(True)])
def test_a_label_may_be_any_one(label: Any, tmp_path: Path) -> None:
    assert opened(tmp_path, Given("a", rows(1), label)).known_labels.tolist() == [1]


def test_bags_without_instance_columns_have_empty_rows_beside_those_with(tmp_path: Path) -> None:
    columns = {"text": ["one", None], "left": np.array([1, 2]), "x": [float("nan"), 1]}
    store = opened(
        tmp_path, Given("a", rows(1)), Given("b", rows(2), instances=columns), Given("c", rows(1)), part_bytes=10**6
    )
    empty = {"text": None, "left": None, "x": None}
    assert store.details("a") == store.details("c") == [empty]
    assert store.details("b") == [{"text": "one", "left": 1, "x": None}, {"text": None, "left": 2, "x": 1.0}]
    assert store.verify() == ()


def test_parts_before_the_first_instance_columns_have_none(tmp_path: Path) -> None:
    given = [Given("a", rows(2)), Given("b", rows(2), instances={"x": [1, 2]}), Given("c", rows(2))]
    store = opened(tmp_path, *given, part_bytes=1)
    assert [part.details is not None for part in store.header.parts] == [False, True, True]
    assert store.details("a") == []
    assert store.details("c") == [{"x": None}, {"x": None}]
    with BagStore.append(tmp_path) as writer, pytest.raises(InvalidInput, match="brings instance column 'y'"):
        writer.add("d", rows(1), instances={"y": [1]})


@pytest.mark.parametrize("values", [["x"], [1], [0.5], [True], [["a", "list"]]])
@pytest.mark.parametrize("part_bytes", [1, 10**6])
def test_the_first_value_of_a_column_decides_its_type(values: list[Any], part_bytes: int, tmp_path: Path) -> None:
    columns: list[list[Any]] = [[None], [None], values, [None], values]
    given = [Given(str(number), rows(1), instances={"note": column}) for number, column in enumerate(columns)]
    store = opened(tmp_path, *given[:4], part_bytes=part_bytes)
    store = opened(tmp_path, *given[4:], part_bytes=part_bytes)
    assert [store.details(each.bag) for each in given] == [[{"note": column[0]}] for column in columns]
    assert store.verify() == ()
    with BagStore.append(tmp_path) as writer, pytest.raises(InvalidInput, match="column 'note' do not fit"):
        writer.add("other", rows(1), instances={"note": [{"a": 1}]})


def test_very_many_small_bags_with_instance_columns(tmp_path: Path) -> None:
    given = [Given(str(number), np.full((1, 1), number), instances={"x": [number]}) for number in range(2_300)]
    store = opened(tmp_path, *given)
    assert len(store.header.parts) == 1
    assert store.rows(np.array([2_299, 5])).tolist() == [[2_299], [5]]
    assert [store.details(str(number))[0]["x"] for number in (0, 999, 1_000, 2_299)] == [0, 999, 1_000, 2_299]
    assert store.verify() == ()


# --- parts ---------------------------------------------------------------------------------------


def test_a_part_is_closed_once_its_features_and_tables_are_large_enough(tmp_path: Path) -> None:
    by_features = opened(tmp_path / "f", *[Given(str(i), rows(100)) for i in range(6)], part_bytes=3_000)
    assert [part.bags for part in by_features.header.parts] == [3, 3]  # 1,200 bytes of features and some of tables
    assert [part.instances for part in by_features.header.parts] == [300, 300]
    text = {"text": ["word " * 1_000]}
    by_text = opened(tmp_path / "t", *[Given(str(i), rows(1), instances=text) for i in range(6)], part_bytes=14_000)
    assert [part.bags for part in by_text.header.parts] == [3, 3]


def test_one_bag_may_be_larger_than_a_part(tmp_path: Path) -> None:
    store = opened(tmp_path, Given("a", rows(500)), Given("b", rows(1)), part_bytes=10)
    assert [part.instances for part in store.header.parts] == [500, 1]
    assert torch.equal(store["a"], rows(500))


def test_the_same_bags_give_the_same_bytes(tmp_path: Path) -> None:
    written(tmp_path / "one", full())
    written(tmp_path / "other", full())
    assert files_of(tmp_path / "one") == files_of(tmp_path / "other")


def test_truth_lies_in_a_folder_of_its_own_and_nowhere_else(tmp_path: Path) -> None:
    store = written(tmp_path, full())
    for kind in ("bags", "instances"):
        for path in (tmp_path / kind).iterdir():
            assert "positive" not in pq.read_schema(path).names
    kept = content_of(store)
    for path in (tmp_path / "truth").iterdir():
        path.unlink()
    assert [row[:5] for row in kept] == [
        (bag, store[bag].tolist(), int(store.known_labels[i]), store.splits[i], store.details(bag))
        for i, bag in enumerate(BagStore.open(tmp_path).ids)
    ]
    with pytest.raises(CorruptFile, match=r"truth.000000\.parquet is missing"):
        list(store.truth_rows())


def test_a_store_says_how_its_features_were_made_and_refuses_others(tmp_path: Path) -> None:
    made: dict[str, Any] = {"backbone": "vgg16", "size": (224, 224), "vocabulary": {"a": 1}}
    store = opened(tmp_path, Given("a", rows(1)), features=made)
    assert store.header.features == {"backbone": "vgg16", "size": [224, 224], "vocabulary": {"a": 1}}
    assert len(opened(tmp_path, Given("b", rows(1)), features=made)) == 2
    assert len(opened(tmp_path, Given("c", rows(1)))) == 3
    with pytest.raises(
        InvalidInput, match=r"made otherwise than these: backbone vgg16, size \[224, 224\], against backbone x"
    ):
        opened(tmp_path, Given("d", rows(1)), features={"backbone": "x"})
    assert len(BagStore.open(tmp_path)) == 3


def test_the_type_of_a_store_cannot_be_changed_later(tmp_path: Path) -> None:
    opened(tmp_path, Given("a", rows(1)))
    with pytest.raises(InvalidInput, match="keeps float32, float16 was asked for; leave it out"):
        opened(tmp_path, Given("b", rows(1)), dtype="float16")
    with pytest.raises(InvalidInput, match="a store keeps float16, bfloat16, float32, not 'float64'"):
        opened(tmp_path, Given("b", rows(1)), dtype="float64")


# --- sources and going on ------------------------------------------------------------------------


def test_bags_of_a_source_are_known_when_it_comes_again(tmp_path: Path) -> None:
    one, other = Source(kind="h5", name="a"), Source(kind="h5", name="b")
    opened(tmp_path, Given("1", rows(1)), Given("2", rows(1)), source=one)
    with StoreWriter(tmp_path, source=other) as writer:
        assert (writer.done, writer.ids) == (set(), {"1", "2"})
        writer.add("3", rows(1))
    before = files_of(tmp_path)
    with StoreWriter(tmp_path, source=one) as writer:
        assert (writer.done, writer.ids) == ({"1", "2"}, {"1", "2", "3"})
    assert files_of(tmp_path) == before, "nothing new, nothing written"
    assert [source.complete for source in BagStore.open(tmp_path).header.sources] == [True, True]


def test_an_import_that_was_cut_short_is_not_complete_and_goes_on(tmp_path: Path) -> None:
    given, source = full(), Source(kind="h5", name="a")

    def stop_after(count: int) -> None:
        with StoreWriter(tmp_path / "s", source=source, part_bytes=200) as writer:
            for each in given[:count]:
                if each.bag not in writer.done:
                    each.add(writer)
            raise KeyboardInterrupt

    for count in (2, 5, 6, 6):
        with suppress(KeyboardInterrupt):
            stop_after(count)
        assert BagStore.open(tmp_path / "s").verify() == ()
        assert not BagStore.open(tmp_path / "s").header.sources[0].complete
    with StoreWriter(tmp_path / "s", source=source, part_bytes=200) as writer:
        assert 0 < len(writer.done) < 7
        for each in given:
            if each.bag not in writer.done:
                each.add(writer)
    written(tmp_path / "at once", given, source=source)
    assert files_of(tmp_path / "s") == files_of(tmp_path / "at once")


def test_a_root_that_is_not_absolute_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="the root of a source is an absolute folder, got 'photos'"):
        StoreWriter(tmp_path, source=Source(kind="images", name="a", root="photos"))
    StoreWriter(tmp_path).abandon()


def test_a_writer_that_added_nothing_makes_no_store(tmp_path: Path) -> None:
    writer = BagStore.create(tmp_path / "s")
    with pytest.raises(InvalidInput, match=r"no bag was added: .* stays without a store"):
        writer.close()
    with pytest.raises(CorruptFile, match=r"there is no store\.json"):
        BagStore.open(tmp_path / "s")


def test_a_closed_writer_takes_nothing_more(tmp_path: Path) -> None:
    with BagStore.create(tmp_path) as writer:
        writer.add("a", rows(1))
        writer.close()
        for call in (lambda: writer.add("b", rows(1)), writer.commit, lambda: writer.picture("a.png", b"")):
            with pytest.raises(InvalidInput, match=r"this writer of .* is closed; make another with BagStore\.append"):
                call()
    assert BagStore.open(tmp_path).ids == ("a",)


# --- a full disk ---------------------------------------------------------------------------------


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Let the system refuse to write beyond ``size`` bytes of a file, as a full disk does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("size", [10, 1_030, 1_100, 1_500, 1_900, 2_300, 2_400, 3_000, 4_000])
def test_a_full_disk_leaves_a_sound_store_and_the_same_import_goes_on(size: int, tmp_path: Path) -> None:
    source = Source(kind="test", name="x")
    given = full(12)  # a part each: header and tables grow beyond a shard

    def run(folder: Path) -> None:
        with StoreWriter(folder, source=source, part_bytes=1) as writer:
            for each in given:
                if each.bag not in writer.done:
                    each.add(writer)

    run(tmp_path / "whole")
    with files_of_at_most(size), pytest.raises(OSError, match="put this right and run it again") as caught:
        run(tmp_path / "s")
    assert caught.value.errno == errno.EFBIG
    left = files_of(tmp_path / "s")
    if "store.json" in left:
        assert BagStore.open(tmp_path / "s").verify() == ()
        assert set(left) == set(files_named_by(BagStore.open(tmp_path / "s")))
        assert f"the store is sound and holds {len(BagStore.open(tmp_path / 's'))} bags" in str(caught.value)
    else:
        assert not (tmp_path / "s").exists()
        assert "no bag has been kept yet" in str(caught.value)
    run(tmp_path / "s")
    assert files_of(tmp_path / "s") == files_of(tmp_path / "whole")


def files_named_by(store: BagStore) -> Iterator[str]:
    yield from ("store.json", "store.lock")
    for part in store.header.parts:
        yield from (f"features/{part.name}.safetensors", f"bags/{part.name}.parquet", f"instances/{part.name}.parquet")
        yield from [f"truth/{part.name}.parquet"] if part.truth else []


def test_who_goes_on_after_a_full_disk_is_told_that_the_writer_is_closed(tmp_path: Path) -> None:
    def go_on() -> None:
        with StoreWriter(tmp_path) as writer:
            with (
                files_of_at_most(2_000),
                pytest.raises(OSError, match="File too large; no bag has been kept yet"),
            ):
                writer.add("a", rows(100_000))
            with pytest.raises(InvalidInput, match=r"this writer of .* is closed"):
                writer.add("b", rows(1))

    with pytest.raises(InvalidInput, match=r"this writer of .* is closed"):
        go_on()
    with StoreWriter(tmp_path) as again:
        again.add("b", rows(1))
    assert BagStore.open(tmp_path).ids == ("b",)


# --- how large parts are, and what is left of a store that never was -------------------------------


def test_parts_of_a_large_store_grow_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("admil.store.writer._PARTS", 2)
    monkeypatch.setattr("admil.store.writer._LARGEST_PART", 6_000)
    given = [Given(f"bag {number}", rows(10, 10, number)) for number in range(60)]  # 400 bytes of features each
    parts = [part.bags for part in written(tmp_path / "s", given, part_bytes=1).header.parts]
    assert sum(parts) == 60
    assert parts[:-1] == sorted(parts[:-1])
    assert parts[0] == 1
    assert parts[-2] == 12, "of 400 bytes and some each, until there are 6,000"


def test_a_store_that_never_had_a_bag_leaves_no_folder_behind(tmp_path: Path) -> None:
    for folder in (tmp_path / "new", tmp_path / "there"):
        if folder.name == "there":
            folder.mkdir()
        with pytest.raises(InvalidInput, match="is empty"), BagStore.create(folder) as writer:
            writer.add("a", np.zeros((0, 2)))
    assert not (tmp_path / "new").exists()
    assert [path.name for path in (tmp_path / "there").iterdir()] == ["store.lock"], "what was there stays"


def test_a_lock_whose_folder_was_deleted_meanwhile_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def deleted(file: object, how: int) -> None:
        (tmp_path / "s" / "store.lock").unlink()

    monkeypatch.setattr("admil.store.lock.fcntl.flock", deleted)
    with pytest.raises(InvalidInput, match="another process is writing"):
        BagStore.create(tmp_path / "s")
