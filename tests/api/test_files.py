"""Saved learners and models: what comes back, and what is said of files that are damaged."""

from __future__ import annotations

import hashlib
import json
import pickletools
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Generator, nn

from admil.api import ActiveLearner, load_model, save_model
from admil.bags import BagBatch, BagIndex, Bags, IntArray, LabelBook, Need, Query, QueryItem, Scores
from admil.errors import AdmilError, CorruptFile, InvalidInput
from admil.functional import Robustness
from admil.learner import Recipe
from admil.losses import Drbl, MaxScore
from admil.sampling import BagPosterior, FEntropy, RandomSampler
from admil.store.documents import document_digest
from admil.training import fit, score
from tests.training.problems import bags_of, easy, generator, recipe, same_weights, trained


def learner_of(bags: Bags | None = None, sampler: object = None, **changes: Any) -> ActiveLearner:
    training = recipe(max_steps=4, dropout=0.5)
    made = Recipe(training=training, sampler=sampler or BagPosterior(), budget=3)
    return ActiveLearner(easy()[0] if bags is None else bags, made, 7, **changes)


def play(learner: ActiveLearner) -> list[Any]:
    """Answer the open questions and tell all that follows from it."""
    told: list[Any] = [learner.round, learner.query()]
    learner.answer({instance: True if instance.index == 0 else None for instance in learner.query().ids})
    return [*told, learner.round, learner.query(), learner.score().f.tolist(), learner.history]


def in_the_middle(**changes: Any) -> ActiveLearner:
    """Return a learner in its second round, with one of three questions answered and one taken back."""
    learner = learner_of(**changes)
    learner.answer(dict.fromkeys(learner.query().ids))
    first, second = learner.query().ids[:2]
    learner.answer({first: True, second: False})
    learner.undo(second)
    return learner


def files(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def digest(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir() if path.is_file()}


def linear(width: int) -> nn.Module:
    return nn.Sequential(nn.Linear(width, 3), nn.Dropout(0.5), nn.Linear(3, 1))


@dataclass(frozen=True)
class Last:
    """Asks the last instances."""

    needs: tuple[Need, ...] = ()

    def select(self, scores: Scores, labels: LabelBook, budget: int, generator: Generator) -> Query:
        chosen = np.flatnonzero(labels.candidates)[-budget:]
        return Query(tuple(QueryItem(scores.index.instance(int(at)), "last", 0.5, 0.1, 1, 0.5) for at in chosen))


class OtherEntropy(FEntropy):
    """A sampler made from a built-in one."""

    def priority(self, scores: Scores, labels: LabelBook, generator: Generator) -> Any:
        return -super().priority(scores, labels, generator)


@pytest.mark.parametrize(
    "stage",
    ["new", "asked", "partly answered", "between rounds", "scored between rounds", "nothing left"],
)
def test_a_loaded_learner_goes_on_as_the_saved_one(tmp_path: Path, stage: str) -> None:
    learner = learner_of()
    if stage == "nothing left":
        learner = learner_of(bags_of([2, 1, 2], [1, 1, 0], 4))
        learner.answer(dict.fromkeys(learner.query().ids, True))
        assert not learner.query()
    elif stage != "new":
        learner.query()
    if stage == "partly answered":
        learner = in_the_middle()
    if "between" in stage:
        learner.answer(dict.fromkeys(learner.query().ids))
    if "scored" in stage:
        learner.score()
    learner.save(tmp_path / "deep" / "folder")
    loaded = ActiveLearner.load(tmp_path / "deep" / "folder")
    assert loaded.labels == learner.labels
    assert (loaded.recipe, loaded.seed, loaded.round) == (learner.recipe, 7, learner.round)
    assert loaded.history == learner.history
    assert play(loaded) == play(learner)


def test_the_open_query_comes_back_with_its_reasons_and_scores(tmp_path: Path) -> None:
    learner = in_the_middle()
    learner.save(tmp_path)
    loaded = ActiveLearner.load(str(tmp_path))
    assert loaded.query() == learner.query()
    assert len(loaded.query()) == 2
    assert [(item.reason, item.f) for item in loaded.query()] == [(item.reason, item.f) for item in learner.query()]


def test_loading_trains_nothing(tmp_path: Path) -> None:
    learner = learner_of()
    learner.query()
    learner.save(tmp_path)
    steps: list[object] = []
    loaded = ActiveLearner.load(tmp_path, on_step=steps.append)
    assert loaded.query() == learner.query()
    assert np.array_equal(loaded.score().f, learner.score().f)
    assert same_weights(loaded.model, learner.model)
    assert loaded.model.history == learner.model.history
    assert loaded.model.recipe == learner.model.recipe
    assert steps == []


def test_bags_come_back_as_they_were(tmp_path: Path) -> None:
    bags = Bags.from_arrays([[[0.1, -2.0]], [[3e-9, 4e9], [0.0, 1.0]]], [-1, 1], ["ä/b", "…\x00"], dtype=torch.float64)
    ActiveLearner(bags, Recipe()).save(tmp_path)
    loaded = ActiveLearner.load(tmp_path).bags
    assert isinstance(loaded, Bags)
    assert loaded.index == bags.index
    assert torch.equal(loaded.features, bags.features)
    assert loaded.features.dtype is torch.float64


def test_bags_may_be_left_out_and_given_back(tmp_path: Path) -> None:
    learner = in_the_middle()
    learner.save(tmp_path, include_bags=False)
    assert not list(tmp_path.glob("bags*"))
    with pytest.raises(InvalidInput, match=r"was saved without its bags; pass bags=… to load it"):
        ActiveLearner.load(tmp_path)
    assert play(ActiveLearner.load(tmp_path, easy()[0])) == play(learner)


def test_other_bags_than_those_saved_are_refused(tmp_path: Path) -> None:
    learner = learner_of()
    learner.query()
    learner.save(tmp_path, include_bags=False)
    with pytest.raises(InvalidInput, match=r"not the bags .* ids, sizes or labels differ"):
        ActiveLearner.load(tmp_path, easy(seed=1)[0])
    narrow = Bags(learner.bags.index, easy()[0].features[:, :2])
    with pytest.raises(InvalidInput, match="saved with bags of 4 features, these have 2"):
        ActiveLearner.load(tmp_path, narrow)
    other = Bags(learner.bags.index, easy()[0].features + 1)
    with pytest.raises(InvalidInput, match=r"not the bags .* their features differ"):
        ActiveLearner.load(tmp_path, other)
    assert ActiveLearner.load(tmp_path, easy()[0]).query() == learner.query()


def test_bags_that_lie_elsewhere_are_left_there(tmp_path: Path) -> None:
    class Elsewhere:
        def __init__(self, bags: Bags) -> None:
            self._bags = bags

        @property
        def index(self) -> BagIndex:
            return self._bags.index

        @property
        def width(self) -> int:
            return self._bags.width

        @property
        def in_memory(self) -> bool:
            return False

        def gather(self, bags: IntArray, out: torch.Tensor | None = None) -> BagBatch:
            return self._bags.gather(bags, out)

        def rows(self, positions: IntArray, out: torch.Tensor | None = None) -> torch.Tensor:
            return self._bags.rows(positions, out)

    bags, _ = easy()
    learner = ActiveLearner(Elsewhere(bags), learner_of().recipe, 7)
    learner.query()
    learner.save(tmp_path)
    assert not list(tmp_path.glob("bags*"))
    assert play(ActiveLearner.load(tmp_path, bags)) == play(learner)


def test_groups_come_back(tmp_path: Path) -> None:
    groups = [f"patient {number % 4}" for number in range(12)]
    learner = in_the_middle(groups=groups)
    learner.save(tmp_path)
    loaded = ActiveLearner.load(tmp_path)
    assert play(loaded) == play(learner)
    assert same_weights(loaded.model, learner.model)
    loaded.save(tmp_path)
    again = ActiveLearner.load(tmp_path)
    assert np.array_equal(again.score().f, learner.score().f)


@pytest.mark.parametrize("module", [linear, linear(4)], ids=["maker", "module"])
def test_an_own_module_is_given_back(tmp_path: Path, module: nn.Module | Callable[[int], nn.Module]) -> None:
    learner = in_the_middle(module=module)
    learner.save(tmp_path)
    with pytest.raises(InvalidInput, match=r"trained with a module of your own; pass module=… to load it"):
        ActiveLearner.load(tmp_path)
    with pytest.raises(InvalidInput, match="do not fit the network"):
        ActiveLearner.load(tmp_path, module=lambda width: nn.Linear(width, 1))
    loaded = ActiveLearner.load(tmp_path, module=module)
    assert play(loaded) == play(learner)


def test_an_own_module_may_share_weights_between_layers(tmp_path: Path) -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = nn.Linear(4, 4), nn.Linear(4, 4)
            self.two.weight = self.one.weight

        def forward(self, features: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = self.two(torch.relu(self.one(features))).sum(1)
            return out

    bags, _ = easy()
    model = fit(recipe(), bags, None, generator(), module=Tied())
    save_model(model, tmp_path)
    assert np.array_equal(score(load_model(tmp_path, Tied()), bags).f, score(model, bags).f)


@pytest.mark.parametrize("sampler", [Last(), OtherEntropy()], ids=["an object", "a subclass"])
def test_an_own_sampler_is_given_back(tmp_path: Path, sampler: Any) -> None:
    learner = in_the_middle(sampler=sampler)
    learner.save(tmp_path)
    with pytest.raises(InvalidInput, match=rf"a sampler of your own, {type(sampler).__name__}; pass sampler=… to load"):
        ActiveLearner.load(tmp_path)
    assert play(ActiveLearner.load(tmp_path, sampler=sampler)) == play(learner)


def test_a_sampler_given_at_load_replaces_the_saved_one(tmp_path: Path) -> None:
    learner_of().save(tmp_path)
    assert ActiveLearner.load(tmp_path, sampler=RandomSampler()).recipe.sampler == RandomSampler()


def test_saving_twice_leaves_the_same_files(tmp_path: Path) -> None:
    learner = in_the_middle()
    learner.save(tmp_path)
    first = digest(tmp_path)
    assert len(first) == 3
    learner.save(tmp_path)
    ActiveLearner.load(tmp_path).save(tmp_path)
    assert digest(tmp_path) == first


def test_saving_later_leaves_only_the_newest_weights(tmp_path: Path) -> None:
    learner = in_the_middle()
    learner.save(tmp_path)
    first = files(tmp_path)
    play(learner)
    learner.save(tmp_path)
    assert len(files(tmp_path)) == 3
    assert len(files(tmp_path) - first) == 1, "the weights; the bags are the same"
    assert play(ActiveLearner.load(tmp_path)) == play(learner)


def test_saving_without_bags_removes_those_written_before(tmp_path: Path) -> None:
    learner = in_the_middle()
    learner.save(tmp_path)
    learner.save(tmp_path, include_bags=False)
    assert len(files(tmp_path)) == 2
    assert not list(tmp_path.glob("bags*"))


def test_a_learner_and_a_model_may_share_a_folder(tmp_path: Path) -> None:
    learner = in_the_middle()
    other = trained(easy()[0], seed=5)
    for saves in ((learner.save, lambda p: save_model(other, p)), (lambda p: save_model(other, p), learner.save)):
        for save in saves:
            save(tmp_path)
        assert same_weights(load_model(tmp_path), other)
        assert ActiveLearner.load(tmp_path).query() == learner.query()
    assert len(files(tmp_path)) == 5
    assert play(ActiveLearner.load(tmp_path)) == play(learner)


def test_damaged_weights_are_written_anew(tmp_path: Path) -> None:
    learner = in_the_middle()
    learner.save(tmp_path)
    for path in tmp_path.glob("*.safetensors"):
        path.write_bytes(b"damaged")
    learner.save(tmp_path)
    assert play(ActiveLearner.load(tmp_path)) == play(learner)


def test_a_crash_while_saving_leaves_what_was_saved_before(tmp_path: Path) -> None:
    """Files of the new state may be there, whole or in part; learner.json is the old one."""
    learner = in_the_middle()
    learner.save(tmp_path / "old")
    expected = play(learner)
    learner.save(tmp_path / "new", include_bags=False)
    for path in (tmp_path / "new").glob("weights-*"):
        shutil.copy(path, tmp_path / "old")
    (tmp_path / "old" / ".learner.json.123.part").write_bytes(b'{"format": "admil-le')
    (tmp_path / "old" / ".bags-0123456789abcdef.safetensors.123.part").write_bytes(b"\0" * 9)
    loaded = ActiveLearner.load(tmp_path / "old")
    assert play(loaded) == expected
    loaded.save(tmp_path / "old")
    assert len([name for name in files(tmp_path / "old") if not name.endswith(".part")]) == 3
    assert loaded.query() == ActiveLearner.load(tmp_path / "old").query()


def test_saving_other_bags_over_a_learner_touches_the_old_ones_last(tmp_path: Path) -> None:
    learner = in_the_middle()
    learner.save(tmp_path)
    before = digest(tmp_path)
    other = ActiveLearner(bags_of([2, 2], [1, 0]), learner.recipe)
    other.save(tmp_path / "other")
    for path in (tmp_path / "other").glob("bags-*"):
        shutil.copy(path, tmp_path)
    assert {name: value for name, value in digest(tmp_path).items() if name in before} == before
    assert ActiveLearner.load(tmp_path).query() == learner.query()


def test_a_save_that_fails_leaves_nothing_half_written(tmp_path: Path) -> None:
    learner = in_the_middle()
    (tmp_path / "learner.json").mkdir()
    with pytest.raises(OSError, match="directory"):
        learner.save(tmp_path)
    assert not [name for name in files(tmp_path) if name.endswith(".part")]


def test_nothing_is_pickled(tmp_path: Path) -> None:
    in_the_middle().save(tmp_path)
    save_model(trained(easy()[0]), tmp_path)
    for path in tmp_path.iterdir():
        assert path.suffix in {".json", ".safetensors"}
        with pytest.raises(ValueError, match=r"opcode|pickle"):
            list(pickletools.genops(path.read_bytes()))
    assert json.loads((tmp_path / "learner.json").read_text(encoding="utf-8"))["format"] == "admil-learner"


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"members": 1, "hidden": ()},
        {"loss": (MaxScore(), Drbl(robustness=Robustness.temperature(0.2))), "beta": (0.5, 1.0), "answers": "bce"},
        {"scaling": "common", "precision": "bfloat16"},
    ],
    ids=["plain", "linear", "members differ", "bfloat16"],
)
def test_a_model_scores_the_same_after_saving_and_loading(tmp_path: Path, changes: dict[str, Any]) -> None:
    bags, _ = easy()
    model = trained(bags, **changes)
    save_model(model, str(tmp_path))
    loaded = load_model(str(tmp_path))
    for one, other in zip(_flat(score(loaded, bags)), _flat(score(model, bags)), strict=True):
        assert np.array_equal(one, other)
    assert loaded.recipe == model.recipe
    assert loaded.history == model.history
    assert not loaded.module.training
    goes_on = [fit(model.recipe, bags, None, generator(1), warm_start=start) for start in (loaded, model)]
    assert same_weights(*goes_on)


def _flat(scores: Scores) -> list[Any]:
    return [scores.f, scores.p, scores.bag_score]


def edit(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    content = json.loads(path.read_text(encoding="utf-8"))
    change(content)
    path.write_text(json.dumps(content), encoding="utf-8")


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


DAMAGE: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "no learner.json": ("learner.json", Path.unlink, "there is no learner.json in .*; give the folder that save"),
    "empty learner.json": ("learner.json", lambda p: p.write_bytes(b""), "is no JSON"),
    "truncated learner.json": ("learner.json", _cut, "is no JSON"),
    "binary learner.json": ("learner.json", lambda p: p.write_bytes(b"\xff\xfe\x00"), "is no JSON"),
    "deep learner.json": ("learner.json", lambda p: p.write_bytes(b"[" * 100_000), "is no JSON"),
    "a list": ("learner.json", lambda p: p.write_text("[1]"), "holds list, expected an object"),
    "foreign": ("learner.json", lambda p: p.write_text("{}"), "is no admil-learner file but None"),
    "another format": (
        "learner.json",
        lambda p: edit(p, lambda c: c.update(format="admil-model")),
        "no admil-learner file but 'admil-model'",
    ),
    "another version": (
        "learner.json",
        lambda p: edit(p, lambda c: c.update(version=99)),
        "has version 99, this admil reads version 1; load it with the admil that wrote it",
    ),
    "edited": ("learner.json", lambda p: edit(p, lambda c: c.update(round=5)), "is damaged or was edited"),
    "a field less": ("learner.json", lambda p: edit(p, lambda c: c.pop("answers")), "is damaged or was edited"),
    "without checksum": ("learner.json", lambda p: edit(p, lambda c: c.pop("sha256")), "is damaged or was edited"),
    "no weights": ("weights-*", Path.unlink, "weights-.* is missing; .* was not copied whole"),
    "truncated weights": ("weights-*", _cut, "weights-.* is damaged: its checksum is not the one written"),
    "flipped weights": ("weights-*", _flip, "weights-.* is damaged: its checksum is not the one written"),
    "no bags": ("bags-*", Path.unlink, "bags-.* is missing; .* was not copied whole"),
    "truncated bags": ("bags-*", _cut, "bags-.* is damaged"),
    "flipped bags": ("bags-*", _flip, "bags-.* is damaged"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_named(tmp_path: Path, name: str) -> None:
    in_the_middle().save(tmp_path)
    pattern, damage, message = DAMAGE[name]
    (path,) = tmp_path.glob(pattern)
    damage(path)
    with pytest.raises(CorruptFile, match=message) as caught:
        ActiveLearner.load(tmp_path)
    assert isinstance(caught.value, ValueError)


def test_a_folder_that_is_none_is_named(tmp_path: Path) -> None:
    with pytest.raises(CorruptFile, match=r"there is no learner\.json in .*nowhere"):
        ActiveLearner.load(tmp_path / "nowhere")
    with pytest.raises(CorruptFile, match=r"there is no model\.json in .*nowhere"):
        load_model(tmp_path / "nowhere")


def test_a_model_is_no_learner_and_a_learner_no_model(tmp_path: Path) -> None:
    save_model(trained(easy()[0]), tmp_path)
    shutil.copy(tmp_path / "model.json", tmp_path / "learner.json")
    with pytest.raises(CorruptFile, match="no admil-learner file but 'admil-model'"):
        ActiveLearner.load(tmp_path)


def test_a_document_with_a_right_checksum_but_wrong_contents_is_damaged_too(tmp_path: Path) -> None:
    """What only another program could have written still ends in one clear error."""
    for change in (
        lambda c: c.pop("answers"),
        lambda c: c.update(answers=[["bag0", 0]]),
        lambda c: c.update(answers=7),
        lambda c: c.update(recipe={"budget": 0, "sampler": {"kind": "pf"}}),
        lambda c: c.update(model={"own_module": False}),
        lambda c: c["model"]["weights"].update(file="\0"),
        lambda c: c.update(query={"items": [{}], "note": ""}),
        lambda c: c.update(history=[3]),
    ):
        in_the_middle().save(tmp_path)
        edit(tmp_path / "learner.json", change)
        edit(tmp_path / "learner.json", lambda c: c.update(sha256=document_digest(c)))
        with pytest.raises(CorruptFile, match=r"learner\.json is damaged|is missing"):
            ActiveLearner.load(tmp_path)


@cache
def _template() -> dict[str, bytes]:
    """Return the files of a learner, saved once for all random damage."""
    with tempfile.TemporaryDirectory() as folder:
        in_the_middle().save(folder)
        return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


@contextmanager
def saved() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        for name, data in _template().items():
            (Path(folder) / name).write_bytes(data)
        yield Path(folder)


def _state_of(learner: ActiveLearner) -> list[Any]:
    """Return all that a learner is."""
    open_, bags = learner.query(), learner.bags
    assert isinstance(bags, Bags)
    model = learner._state.model
    weights = [w.tolist() for w in model.module.state_dict().values()] if model else None
    return [learner.recipe, learner.seed, learner.round, learner.labels, open_, learner.history, weights, bags.index]


@settings(max_examples=60)
@given(
    name=st.sampled_from(["learner.json", "learner.json", "learner.json", "weights-*", "bags-*"]),
    places=st.lists(st.floats(0, 1, exclude_max=True), min_size=1, max_size=3),
    patch=st.binary(max_size=4) | st.sampled_from([b"0", b"1", b"9", b" ", b'"', b"null", b"-", b".", b"e", b"true"]),
    overwritten=st.integers(0, 4),
)
def test_random_damage_ends_in_a_clear_error_or_in_the_same_learner(
    name: str, places: list[float], patch: bytes, overwritten: int
) -> None:
    with saved() as folder:
        expected = _state_of(ActiveLearner.load(folder))
        (path,) = folder.glob(name)
        data = path.read_bytes()
        for place in places:
            at = int(place * len(data))
            data = data[:at] + patch + data[at + overwritten :]
        path.write_bytes(data)
        try:
            learner = ActiveLearner.load(folder)
        except AdmilError:
            return
        assert _state_of(learner) == expected
