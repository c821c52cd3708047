"""Models of stores: what is written, and that it is what memory gives."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

from admil.api import features_of_model, fit_store, load_model, save_model, score_store, stores, training_bags
from admil.errors import CorruptFile, InvalidInput
from admil.store import BagStore
from admil.training import Progress, TrainingInterrupted, score
from tests.training.problems import easy, recipe


def stored(folder: Path, features: dict[str, object] | None = None) -> BagStore:
    """Return an easy problem as a store: every third bag in split "train", two bags without a label."""
    bags, _ = easy(per_class=12)
    assert bags.labels is not None
    with BagStore.create(folder, features=features, part_bytes=400) as writer:
        for number, bag in enumerate(bags.ids):
            label = None if number in (0, 1) else int(bags.labels[number])
            writer.add(bag, bags[bag], label, "train" if number % 3 == 0 else None)
    return BagStore.open(folder)


def test_training_takes_the_split_named_train_and_leaves_bags_without_a_label_out(tmp_path: Path) -> None:
    store = stored(tmp_path)
    assert training_bags(store).ids == tuple(bag for n, bag in enumerate(store.ids) if n % 3 == 0 and n > 1)
    with pytest.raises(InvalidInput, match="its splits are"):
        training_bags(store, "test")


def test_without_a_split_named_train_all_labelled_bags_are_taken(tmp_path: Path) -> None:
    store = stored(tmp_path)
    rest = store.subset([number for number in range(len(store)) if number % 3])
    assert training_bags(rest).ids == rest.ids[1:]


@pytest.mark.parametrize("ending", [".parquet", ".csv"])
def test_scores_on_disk_are_those_in_memory_however_the_bags_are_cut(
    ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "_AT_ONCE", 7)
    store = stored(tmp_path / "store")
    model = fit_store(training_bags(store), tmp_path / "model", recipe(max_steps=5))
    seen: list[int] = []
    written = score_store(tmp_path / "model", store, tmp_path / f"scores{ending}", on_bags=seen.append)
    wanted = score(model, store.load())
    path = tmp_path / f"scores{ending}"
    rows = pq.read_table(path) if ending == ".parquet" else pc.read_csv(path)
    np.testing.assert_allclose(rows["f"].to_numpy(), wanted.f, atol=1e-6)
    np.testing.assert_allclose(rows["p"].to_numpy(), wanted.p, atol=1e-6)
    np.testing.assert_allclose(written.bag_score, wanted.bag_score, atol=1e-6)
    assert rows["index"].to_pylist() == [wanted.index.instance(i).index for i in range(len(wanted.f))]
    assert rows["label"].to_pylist()[0] is None
    assert written.best == pytest.approx([f.max() for f in wanted.split()], abs=1e-6)
    assert written.trained_on
    assert seen[-1] == len(store)
    assert len(seen) > 1, "scored in runs"


def test_an_interrupted_training_leaves_the_best_model_so_far(tmp_path: Path) -> None:
    def stop(progress: Progress) -> None:
        if progress.step == 4:
            raise KeyboardInterrupt

    with pytest.raises(TrainingInterrupted):
        fit_store(training_bags(stored(tmp_path / "store")), tmp_path / "model", recipe(max_steps=50), on_step=stop)
    assert len(load_model(tmp_path / "model").history.losses) == 4


def test_a_model_refuses_features_made_otherwise(tmp_path: Path) -> None:
    made = {"encoder": "mine", "size": 64}
    store, same = stored(tmp_path / "a", made), stored(tmp_path / "b", made)
    other, unknown = stored(tmp_path / "c", {**made, "size": 32}), stored(tmp_path / "d")
    fit_store(training_bags(store), tmp_path / "model", recipe(max_steps=2))
    assert features_of_model(tmp_path / "model") == made
    score_store(tmp_path / "model", same, tmp_path / "same.csv")
    score_store(tmp_path / "model", unknown, tmp_path / "unknown.csv")
    with pytest.raises(InvalidInput, match=r"encoder mine, size 64.*encoder mine, size 32"):
        score_store(tmp_path / "model", other, tmp_path / "other.csv")
    assert not (tmp_path / "other.csv").exists()


def test_a_failure_leaves_no_half_file(tmp_path: Path) -> None:
    store = stored(tmp_path / "store")
    fit_store(training_bags(store), tmp_path / "model", recipe(max_steps=2))

    def fail(_: int) -> None:
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        score_store(tmp_path / "model", store, tmp_path / "out" / "scores.csv", on_bags=fail)
    assert list((tmp_path / "out").iterdir()) == []


def test_features_that_are_no_object_are_damage(tmp_path: Path) -> None:
    store = stored(tmp_path / "store")
    model = fit_store(training_bags(store), tmp_path / "model", recipe(max_steps=2))
    save_model(model, tmp_path / "model")
    assert features_of_model(tmp_path / "model") is None
    from admil.store.documents import read_document, write_document

    path = tmp_path / "model" / "model.json"
    content = {k: v for k, v in read_document(path, "admil-model", 1, "").items() if k not in ("format", "version")}
    write_document(path, "admil-model", 1, {**content, "features": 3})
    with pytest.raises(CorruptFile, match="features are int"):
        features_of_model(tmp_path / "model")
