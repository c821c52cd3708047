"""What a benchmark runs: suites in TOML, and the trials that they come to."""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, Literal, Self, get_args

from pydantic import Field, model_validator

from admil.bench.learners import learner
from admil.errors import InvalidInput
from admil.learner import Recipe
from admil.losses import BagLoss
from admil.sampling import BuiltinSampler
from admil.settings import Settings
from admil.training import TrainingRecipe

__all__ = [
    "Choice",
    "DataName",
    "DataSpec",
    "Method",
    "Plan",
    "Suite",
    "Trial",
    "read_suite",
    "read_suites",
    "suite_names",
]

DataName = Literal["20newsgroups", "cifar10", "cifar100", "voc", "digits"]
SAMPLERS = tuple(kind.model_fields["kind"].default for kind in get_args(get_args(BuiltinSampler)[0]))
"""The kinds of all samplers: a new one is in every comparison of samplers."""


TOPICS = (
    "alt.atheism",
    "comp.graphics",
    "comp.os.ms-windows.misc",
    "comp.sys.ibm.pc.hardware",
    "comp.sys.mac.hardware",
    "comp.windows.x",
    "misc.forsale",
    "rec.autos",
    "rec.motorcycles",
    "rec.sport.baseball",
    "rec.sport.hockey",
    "sci.crypt",
    "sci.electronics",
    "sci.med",
    "sci.space",
    "soc.religion.christian",
    "talk.politics.guns",
    "talk.politics.mideast",
    "talk.politics.misc",
    "talk.religion.misc",
)
"""Of 20 Newsgroups, all of them."""


class DataSpec(Settings):
    """A data set as one trial sees it.

    Attributes:
        name: which.
        part: the topic of 20 Newsgroups, or the class that is looked for in VOC.
        seed: deals the bags, and is the seed of the trial.
    """

    name: DataName
    part: str = ""
    seed: int = Field(default=0, ge=0)

    @property
    def folder(self) -> str:
        """Where its store lies among others."""
        return "/".join(filter(None, (self.name, self.part, f"seed-{self.seed}")))


class Choice(Settings):
    """A setting that a trial may choose: the loss, and beta of the answers' term."""

    loss: BagLoss
    beta: float = Field(default=1.0, ge=0)


class Trial(Settings):
    """One learner on one data set with one seed, passive or asking round after round.

    Attributes:
        data: what is learned.
        recipe: how, whom to ask, and how many questions a round.
        rounds: of questions; 0 is passive.
        choices: settings among which every round chooses; () leaves those of the recipe.
        protocol: what chooses among settings and checkpoints: ``honest``, held-out training bags and answers;
            ``paper``, the test truth, as the authors did, so that what comes of it is optimistic.
        ceiling: whether this is no learner but the ceiling: all training instances labelled.
        pictured: how many of the hardest bags are kept with all their scores, to be drawn.
    """

    data: DataSpec
    recipe: Recipe = Recipe()
    rounds: int = Field(default=0, ge=0)
    choices: tuple[Choice, ...] = ()
    protocol: Literal["honest", "paper"] = "honest"
    ceiling: bool = False
    pictured: int = Field(default=0, ge=0)

    def key(self, store: str) -> str:
        """Return what tells this trial on a store, given by its checksum, from every other."""
        return _digest({**self.model_dump(mode="json"), "store": store})

    def passive_key(self, store: str) -> str:
        """Return what trials share whose model before any answer is the same."""
        recipe = self.recipe.training.model_dump(mode="json")
        shared = {"data": self.data.model_dump(mode="json"), "training": recipe, "store": store}
        choices = [choice.model_dump(mode="json") for choice in self.choices]
        return _digest({**shared, "choices": choices, "protocol": self.protocol, "ceiling": self.ceiling})


class Plan(Settings):
    """How a suite uses a data set.

    Attributes:
        parts: topics, or classes to look for; each is a data set of its own; "all" topics of 20 Newsgroups.
        seeds: each deals its own bags.
        budget: questions a round.
        rounds: of questions.
    """

    parts: tuple[str, ...] | Literal["all"] = ("",)
    seeds: tuple[int, ...] = Field(min_length=1)
    budget: int = Field(ge=1)
    rounds: int = Field(ge=0)


class Method(Settings):
    """A line of a suite's figures: a learner, perhaps with a sampler.

    Attributes:
        name: what figures call it.
        learner: one of `LEARNERS`.
        sampler: the kind or the fields of a sampler; "*" makes a method of each; None asks nobody.
        training: changes to the learner's recipe.
        warm_start: whether a round starts from the weights of the last.
        robustness: strengths to choose among, by held-out bags and answers; or the one to have.
        beta: weights of the answers' term, likewise.
        protocol: see `Trial`.
        data: only these data sets; None for all of the suite.
        pictured: see `Trial`.
    """

    name: str = Field(min_length=1)
    learner: str = "drbl"
    sampler: str | dict[str, Any] | None = None
    training: dict[str, Any] = Field(default_factory=dict)
    warm_start: bool = False
    robustness: tuple[dict[str, Any], ...] = ()
    beta: tuple[float, ...] = ()
    protocol: Literal["honest", "paper"] = "honest"
    data: tuple[DataName, ...] | None = None
    pictured: int = 0

    @model_validator(mode="after")
    def _cold_where_it_chooses(self) -> Self:
        if self.warm_start and max(1, len(self.robustness)) * max(1, len(self.beta)) > 1:
            raise ValueError(f"method {self.name!r} chooses among settings, so that it cannot start warm")
        return self

    def each(self) -> Iterator[Method]:
        """Yield the method, or for the sampler "*" one of every kind."""
        if self.sampler != "*":
            yield self
            return
        for kind in SAMPLERS:
            yield self.model_copy(update={"name": self.name.replace("*", kind.replace("_", "-")), "sampler": kind})

    def trial(self, data: DataSpec, plan: Plan, training: Mapping[str, Any]) -> Trial:
        """Return what it does on a data set; ``training`` changes the recipes of all methods."""
        recipe = learner(self.learner, **{**training, **self.training})
        choices = self._choices(recipe)
        if len(choices) == 1:
            recipe = TrainingRecipe.model_validate({**dict(recipe), **dict(choices[0])})
        sampler = {"kind": self.sampler} if isinstance(self.sampler, str) else self.sampler
        asks: dict[str, Any] = {} if sampler is None else {"sampler": sampler, "budget": plan.budget}
        return Trial(
            data=data,
            recipe=Recipe(training=recipe, warm_start=self.warm_start, **asks),
            rounds=0 if sampler is None else plan.rounds,
            choices=choices if len(choices) > 1 else (),
            protocol=self.protocol,
            pictured=self.pictured,
        )

    def _choices(self, training: TrainingRecipe) -> tuple[Choice, ...]:
        """Return every strength with every beta; () where neither is said."""
        if not self.robustness and not self.beta:
            return ()
        losses = [Choice(loss={"kind": "drbl", "robustness": each}).loss for each in self.robustness]
        losses = losses or [training.member_losses[0]]
        return tuple(Choice(loss=loss, beta=beta) for loss in losses for beta in self.beta or training.member_betas[:1])


class Suite(Settings):
    """A comparison: some methods on some data sets.

    Attributes:
        title: what it shows.
        shows: what its part of the report is made of.
        baseline: the method that others are compared with; None for the first.
        include: other suites that belong to it, whole.
        data: how each data set is used.
        methods: what is compared.
        training: changes to the recipe of every learner, the ceiling's included; a method's own go before them.
        ceiling: whether the ceiling of each data set is wanted.
    """

    title: str
    shows: tuple[Literal["table", "curves", "sweep", "bags"], ...] = ("table",)
    baseline: str | None = None
    include: tuple[str, ...] = ()
    data: dict[DataName, Plan] = Field(default_factory=dict)
    methods: tuple[Method, ...] = ()
    training: dict[str, Any] = Field(default_factory=dict)
    ceiling: bool = True

    def trials(self, only: Sequence[str] = ()) -> Iterator[tuple[str, Trial]]:
        """Yield the name of a method, and a trial of it, for every data set, part and seed.

        Args:
            only: words one of which the method's name or the folder of the data must contain; () for all.
        """
        for name, plan in self.data.items():
            parts = TOPICS if plan.parts == "all" else plan.parts
            for spec in (DataSpec(name=name, part=part, seed=seed) for part in parts for seed in plan.seeds):
                if self.ceiling and _wanted(only, "ceiling", spec):
                    yield (
                        "ceiling",
                        Trial(data=spec, ceiling=True, recipe=Recipe(training=learner("drbl", **self.training))),
                    )
                for method in (each for entry in self.methods for each in entry.each()):
                    if (method.data is None or name in method.data) and _wanted(only, method.name, spec):
                        yield method.name, method.trial(spec, plan, self.training)


def suite_names() -> list[str]:
    """Return the names of the suites that come with the package."""
    files = resources.files("admil.bench") / "suites"
    return sorted(file.name.removesuffix(".toml") for file in files.iterdir() if file.name.endswith(".toml"))


def read_suite(name: str) -> Suite:
    """Read a suite of the package by its name, or any other by the path of its file."""
    path = Path(name)
    if path.suffix == ".toml" and not path.is_file():
        raise InvalidInput(f"there is no file {name}", name)
    if path.suffix != ".toml" and name not in suite_names():
        raise InvalidInput(f"there is no suite {name!r}; there are {', '.join(suite_names())}, or name a .toml", name)
    file = path if path.suffix == ".toml" else resources.files("admil.bench") / "suites" / f"{name}.toml"
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{name} is no TOML: {error}", name) from error
    suite = Suite.model_validate(content)
    names = [method.name for entry in suite.methods for method in entry.each()]
    if double := next((each for each in names if names.count(each) > 1), None):
        raise InvalidInput(f"suite {name} has two methods called {double!r}; rename one", double)
    return suite


def read_suites(name: str) -> dict[str, Suite]:
    """Read a suite and those that it includes, by name; each once, those that hold nothing themselves left out."""
    suite = read_suite(name)
    found = {Path(name).stem: suite} if suite.methods else {}
    for included in suite.include:
        found |= read_suites(included)
    return found


def _wanted(only: Sequence[str], method: str, data: DataSpec) -> bool:
    return not only or any(word in method or word in data.folder for word in only)


def _digest(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:20]
