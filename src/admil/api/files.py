"""Files of a learner and of a model: JSON for what people read, safetensors for numbers, no pickle.

A learner is a folder: ``learner.json`` names the other files and their SHA-256, and holds its own.
The names of the others carry their checksum, files are written beside their place and moved in,
``learner.json`` last, and what it no longer names goes after that: a crash leaves a folder that loads.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar, get_args

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor, nn

from admil.bags import Answer, AnswerValue, BagIndex, Bags, BagSource, InstanceId, LabelBook, Query, QueryItem
from admil.errors import CorruptFile, InvalidInput, warn
from admil.learner import LearnerState, Recipe, RoundRecord
from admil.models import ModuleEnsemble, Scaling
from admil.sampling import BuiltinSampler, Sampler
from admil.settings import Settings
from admil.store import BagStore
from admil.store.documents import read_document, write_bytes, write_document
from admil.training import Check, ModuleMaker, TrainedModel, TrainingHistory, TrainingRecipe, build_scorer

__all__ = ["features_of_model", "load_learner", "load_model", "save_learner", "save_model"]

_LEARNER = "learner.json"
_MODEL = "model.json"
_VERSION = 1
_S = TypeVar("_S", bound=Settings)
_BUILTIN_SAMPLERS = get_args(get_args(BuiltinSampler)[0])


def save_model(model: TrainedModel, folder: str | Path, features: Mapping[str, Any] | None = None) -> None:
    """Write a model into a folder: model.json and its weights.

    Args:
        model: what `fit` returned.
        folder: made if need be.
        features: how the features it was trained on were made, as JSON, where that is known.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    content = {**_model_to_json(model, folder), "features": None if features is None else dict(features)}
    _write_document(folder / _MODEL, "admil-model", content)


def features_of_model(folder: str | Path) -> Mapping[str, Any] | None:
    """Return how the features of a saved model were made, where that is known."""
    path = Path(folder) / _MODEL
    features = _read_document(path, "admil-model").get("features")
    if features is not None and not isinstance(features, dict):
        raise CorruptFile(f"{path} is damaged: its features are {type(features).__name__}, expected an object", path)
    return features


def load_model(folder: str | Path, module: nn.Module | ModuleMaker | None = None) -> TrainedModel:
    """Read what `save_model` wrote; ``module`` rebuilds a network of your own."""
    folder = Path(folder)
    content = _read_document(folder / _MODEL, "admil-model")
    with _clear_errors(folder / _MODEL):
        return _model_from_json(content, folder, module)


def save_learner(
    folder: Path, bags: BagSource, with_bags: bool, recipe: Recipe, state: LearnerState, groups: list[int] | None
) -> None:
    """Write a learner's state, and its bags where they are to be written and lie in memory."""
    folder.mkdir(parents=True, exist_ok=True)
    content: dict[str, Any] = {
        "recipe": _recipe_to_json(recipe),
        "seed": state.seed,
        "round": state.round,
        "answers": [[a.instance.bag, a.instance.index, a.value.value] for a in state.labels.answers],
        "trained_on": None if state.trained_on is None else len(state.trained_on.answers),
        "query": None if state.query is None else asdict(state.query),
        "history": [asdict(record) for record in state.history],
        "groups": groups,
        "n_bags": len(bags.index),
        "index": _index_digest(bags.index),
        "digest": _digest(bags),
        "bags": _write_bags(bags, folder) if with_bags and isinstance(bags, Bags) else None,
        "model": None if state.model is None else _model_to_json(state.model, folder),
    }
    _write_document(folder / _LEARNER, "admil-learner", content)


def load_learner(
    folder: Path, bags: BagSource | None, module: nn.Module | ModuleMaker | None, sampler: Sampler | None
) -> tuple[BagSource, Recipe, LearnerState, list[int] | None]:
    """Read what `save_learner` wrote; ``bags``, ``module`` and ``sampler`` replace what was not written."""
    content = _read_document(folder / _LEARNER, "admil-learner")
    with _clear_errors(folder / _LEARNER):
        bags, saved = _bags_of(content, folder, bags)
        recipe = _recipe_from_json(content["recipe"], sampler)
        answers = [Answer(InstanceId(bag, i), AnswerValue(value)) for bag, i, value in content["answers"]]
        labels = LabelBook(bags.index, tuple(answers))
        trained_on = content["trained_on"]
        if len(saved.index) < len(bags.index):
            trained_on = None  # it has not seen the bags that are new
        if trained_on is not None:
            trained_on = labels if trained_on == len(answers) else LabelBook(bags.index, tuple(answers[:trained_on]))
        model = None if content["model"] is None else _model_from_json(content["model"], folder, module)
        if model is not None and model.width != bags.width:
            raise InvalidInput(f"{folder} was saved with bags of {model.width} features, these have {bags.width}")
        _check_same(content["digest"], saved, folder)
        state = LearnerState(
            seed=content["seed"],
            labels=labels,
            round=content["round"],
            query=_query_from_json(content["query"]),
            model=model,
            trained_on=trained_on,
            history=tuple(_record_from_json(record) for record in content["history"]),
        )
        return bags, recipe, state, content["groups"]


def _model_to_json(model: TrainedModel, folder: Path) -> dict[str, Any]:
    state = {  # copies: safetensors refuses weights that a module of the user's shares between layers
        name: value.detach().cpu().clone(memory_format=torch.contiguous_format)
        for name, value in model.module.state_dict().items()
    }
    return {
        "weights": _write_tensors(folder, "weights", save_tensors(state)),
        "scaling": model.scaling.rule,
        "recipe": model.recipe.model_dump(mode="json"),
        "own_module": isinstance(model.module, ModuleEnsemble),
        "history": asdict(model.history),
    }


def _model_from_json(content: Mapping[str, Any], folder: Path, module: nn.Module | ModuleMaker | None) -> TrainedModel:
    if content["own_module"] and module is None:
        raise InvalidInput(f"the model in {folder} was trained with a module of your own; pass module=… to load it")
    data = _read_checked(folder, content["weights"])
    try:
        state = load_tensors(data)
    except SafetensorError as error:
        raise CorruptFile(f"{folder / content['weights']['file']} is no safetensors file: {error}") from error
    recipe = _settings(TrainingRecipe, content["recipe"])
    scaling = Scaling(content["scaling"], state["shift"], state["factor"])
    scorer = build_scorer(recipe, len(scaling.shift), scaling, None, module)
    try:
        scorer.load_state_dict(state)
    except RuntimeError as error:
        raise InvalidInput(f"the weights in {folder} do not fit the network: {error}") from error
    scorer.eval()
    history = content["history"]
    checks = tuple(Check(**check) for check in history["checks"])
    lists = {name: tuple(history[name]) for name in ("losses", "warnings")}
    lists["held_out"] = tuple(map(tuple, history["held_out"]))
    return TrainedModel(scorer, recipe, scaling, TrainingHistory(**{**history, **lists, "checks": checks}))


def _recipe_to_json(recipe: Recipe) -> dict[str, Any]:
    content: dict[str, Any] = recipe.model_dump(mode="json", exclude={"sampler"})
    kind = type(recipe.sampler)
    if kind in _BUILTIN_SAMPLERS:  # a subclass would come back as its base
        return {**content, "sampler": recipe.sampler.model_dump(mode="json")}
    return {**content, "sampler": {"own": kind.__name__}}


def _recipe_from_json(content: dict[str, Any], sampler: Sampler | None) -> Recipe:
    written = content["sampler"]
    if sampler is not None:
        written = sampler
    elif "own" in written:
        raise InvalidInput(f"the recipe used a sampler of your own, {written['own']}; pass sampler=… to load it")
    return _settings(Recipe, {**content, "sampler": written})


def _settings(kind: type[_S], content: Mapping[str, Any]) -> _S:
    """Read settings of a document; what does not fit is damage, not the caller's input."""
    try:
        return kind.model_validate(content)
    except InvalidInput as error:
        raise ValueError(str(error)) from None


def _query_from_json(content: dict[str, Any] | None) -> Query | None:
    if content is None:
        return None
    items = [QueryItem(**{**item, "id": InstanceId(**item["id"])}) for item in content["items"]]
    return Query(tuple(items), content["note"])


def _record_from_json(content: dict[str, Any]) -> RoundRecord:
    return RoundRecord(**{**content, "asked": tuple(InstanceId(**asked) for asked in content["asked"])})


def _write_bags(bags: Bags, folder: Path) -> dict[str, str]:
    tensors: dict[str, Tensor] = {
        "features": bags.features.detach().cpu().contiguous(),
        "offsets": torch.from_numpy(bags.index.offsets.copy()),
    }
    if bags.labels is not None:
        tensors["labels"] = torch.from_numpy(bags.labels.copy())
    return _write_tensors(folder, "bags", save_tensors(tensors, metadata={"ids": json.dumps(bags.ids)}))


def _bags_of(content: Mapping[str, Any], folder: Path, bags: BagSource | None) -> tuple[BagSource, BagSource]:
    """Return the bags to go on with, and those of them that the learner was saved with: the first, or all."""
    if bags is None:
        if content["bags"] is None:
            raise InvalidInput(f"{folder} was saved without its bags; pass bags=… to load it")
        bags = _read_bags(folder, content["bags"])
    count = content["n_bags"]
    saved = bags.subset(range(count)) if isinstance(bags, Bags | BagStore) and len(bags) > count else bags
    if _index_digest(saved.index) != content["index"]:
        raise InvalidInput(f"these are not the bags that {folder} was saved with: ids, sizes or labels differ")
    if saved is not bags:
        _welcome(len(bags.index) - count, content["groups"], folder)
    return bags, saved


def _welcome(new: int, groups: list[int] | None, folder: Path) -> None:
    """Say that there are more bags than a learner was saved with."""
    if groups is not None:
        raise InvalidInput(
            f"{new} bags are new since {folder} was saved, and of these no group is known; go on without them "
            "(bags.subset(range(n))), or make a new learner with groups of all bags and give it the answers"
        )
    warn(f"{new} bags are new since {folder} was saved: they take part from now on, and the answers stay")


def _read_bags(folder: Path, entry: Mapping[str, str]) -> Bags:
    tensors = load_tensors(_read_checked(folder, entry))
    with safe_open(folder / entry["file"], "pt") as file:
        ids = tuple(json.loads(file.metadata()["ids"]))
    labels = tensors["labels"].numpy() if "labels" in tensors else None
    return Bags(BagIndex(ids, tensors["offsets"].numpy(), labels), tensors["features"])


def _index_digest(index: BagIndex) -> str:
    labels = None if index.labels is None else index.labels.tolist()
    return hashlib.sha256(json.dumps([index.ids, index.offsets.tolist(), labels]).encode()).hexdigest()


def _digest(bags: BagSource) -> dict[str, str] | None:
    """Return a checksum of the bags, by where they lie: a store's is another than that of its copy in memory."""
    if not isinstance(bags, Bags | BagStore):
        return None
    return {type(bags).__name__: bags.digest}


def _check_same(before: dict[str, str] | None, bags: BagSource, folder: Path) -> None:
    now = _digest(bags)
    if before is not None and now is not None and before.keys() == now.keys() and before != now:
        raise InvalidInput(f"these are not the bags that {folder} was saved with: their features differ")


def _read_checked(folder: Path, entry: Mapping[str, str]) -> bytes:
    path = folder / entry["file"]
    if not path.is_file():
        raise CorruptFile(f"{path} is missing; {folder} was not copied whole", path)
    data = path.read_bytes()
    if hashlib.sha256(data).hexdigest() != entry["sha256"]:
        raise CorruptFile(f"{path} is damaged: its checksum is not the one written; restore it from a copy", path)
    return data


def _read_document(path: Path, format_: str) -> dict[str, Any]:
    return read_document(path, format_, _VERSION, "save()")


def _write_document(path: Path, format_: str, content: Mapping[str, Any]) -> None:
    """Write a document, then delete the tensors that none of the folder names any more."""
    write_document(path, format_, _VERSION, content)
    beside = [path.with_name(name) for name in (_LEARNER, _MODEL)]
    named = "".join(other.read_text(encoding="utf-8", errors="replace") for other in beside if other.is_file())
    for tensors in (*path.parent.glob("weights-*.safetensors"), *path.parent.glob("bags-*.safetensors")):
        if tensors.name not in named:
            tensors.unlink()


def _write_tensors(folder: Path, kind: str, data: bytes) -> dict[str, str]:
    digest = hashlib.sha256(data).hexdigest()
    path = folder / f"{kind}-{digest[:16]}.safetensors"
    if not path.is_file() or hashlib.sha256(path.read_bytes()).hexdigest() != digest:
        write_bytes(path, data)
    return {"file": path.name, "sha256": digest}


class _clear_errors:  # noqa: N801  # a context manager reads like a function
    """Turn what a damaged document makes Python raise into one clear error."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, KeyError | TypeError | IndexError) or (
            type(error) is ValueError  # an AdmilError is a ValueError too and already clear
        ):
            raise CorruptFile(f"{self.path} is damaged: {error!r}; restore it from a copy", self.path) from error
