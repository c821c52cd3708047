"""Suites come to the trials they say, and each trial has a name that nothing else has."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pytest

from admil.bench import LEARNERS, DataSpec, Method, Plan, Suite, Trial, learner, read_suite, read_suites, suite_names
from admil.bench.plans import SAMPLERS, TOPICS
from admil.datasets import read_posts
from admil.errors import InvalidInput
from admil.functional import Robustness
from admil.learner import Recipe
from admil.losses import Drbl, HingeLoss, PooledLoss, SoftmaxPooled
from admil.sampling import PF, BuiltinSampler
from tests.datasets.raws import SHARED, needs_shared

PLAN = Plan(seeds=(0, 1), budget=5, rounds=2)


def suite(**fields: Any) -> Suite:
    return Suite.model_validate({"title": "t", "data": {"digits": PLAN}, "ceiling": False, **fields})


def test_a_suite_is_every_method_on_every_data_set_part_and_seed() -> None:
    made = suite(
        data={"digits": PLAN, "20newsgroups": {"parts": ["a", "b"], "seeds": [3], "budget": 1, "rounds": 0}},
        methods=[{"name": "passive"}, {"name": "asks", "sampler": "pf", "data": ["digits"]}],
    )
    found = [(name, trial.data.folder, trial.rounds) for name, trial in made.trials()]
    assert found == [
        ("passive", "digits/seed-0", 0),
        ("asks", "digits/seed-0", 2),
        ("passive", "digits/seed-1", 0),
        ("asks", "digits/seed-1", 2),
        ("passive", "20newsgroups/a/seed-3", 0),
        ("passive", "20newsgroups/b/seed-3", 0),
    ]


def test_all_samplers_are_a_star() -> None:
    made = suite(methods=[{"name": "x + *", "sampler": "*"}])
    names = [name for name, trial in made.trials() if trial.data.seed == 0]
    assert names == [f"x + {kind.replace('_', '-')}" for kind in SAMPLERS]
    assert len(SAMPLERS) == len(get_args(get_args(BuiltinSampler)[0]))


@needs_shared
def test_all_topics_are_those_of_the_posts() -> None:
    assert {post.topic for post in read_posts(SHARED / "data" / "20news.jsonl.gz")} == set(TOPICS)
    made = suite(
        data={"20newsgroups": {"parts": "all", "seeds": [0], "budget": 1, "rounds": 0}}, methods=[{"name": "m"}]
    )
    assert [trial.data.part for _, trial in made.trials()] == list(TOPICS)


def test_a_trial_says_all_that_its_method_says() -> None:
    method = Method(
        name="m",
        learner="mi-logistic",
        sampler={"kind": "pf", "per_bag": 3},
        training={"answers": "bce"},
        beta=(0.5, 2.0),
        protocol="paper",
        pictured=2,
    )
    trial = method.trial(DataSpec(name="digits", seed=7), PLAN, {"members": 4, "answers": "bags"})
    assert trial.recipe.training == learner("mi-logistic", members=4, answers="bce")
    assert (trial.recipe.sampler, trial.recipe.budget, trial.rounds) == (PF(per_bag=3), 5, 2)
    assert [(choice.loss, choice.beta) for choice in trial.choices] == [(SoftmaxPooled(), 0.5), (SoftmaxPooled(), 2.0)]
    assert (trial.protocol, trial.pictured, trial.data.seed) == ("paper", 2, 7)


def test_choices_are_every_strength_with_every_beta() -> None:
    strengths = [{"family": "chi_square", "measure": "effective", "strength": k} for k in (1, 3)]
    trial = Method(name="m", robustness=tuple(strengths), beta=(1.0, 2.0)).trial(DataSpec(name="digits"), PLAN, {})
    made = [(choice.loss, choice.beta) for choice in trial.choices]
    assert made == [(Drbl(robustness=Robustness.effective(k)), beta) for k in (1, 3) for beta in (1.0, 2.0)]


def test_one_setting_is_no_choice_but_the_one_to_have() -> None:
    strength = {"family": "kl", "measure": "effective", "strength": 3.0}
    trial = Method(name="m", beta=(2.0,), robustness=(strength,)).trial(DataSpec(name="digits"), PLAN, {})
    assert trial.choices == ()
    assert trial.recipe.training == learner("drbl", beta=2.0, loss=Drbl(robustness=Robustness.effective(3, "kl")))


def test_the_key_of_a_trial_is_its_own_and_the_stores() -> None:
    trials = [
        Trial(data=DataSpec(name="digits")),
        Trial(data=DataSpec(name="digits", seed=1)),
        Trial(data=DataSpec(name="digits"), rounds=1),
        Trial(data=DataSpec(name="digits"), ceiling=True),
        Trial(data=DataSpec(name="digits"), recipe=Recipe(budget=3)),
        Trial(data=DataSpec(name="digits"), protocol="paper"),
    ]
    keys = {trial.key(store) for trial in trials for store in ("a", "b")}
    assert len(keys) == 2 * len(trials)
    assert trials[0].key("a") == Trial.model_validate_json(trials[0].model_dump_json()).key("a")


def test_trials_share_a_passive_model_whoever_they_ask() -> None:
    methods = [Method(name="a", sampler="pf"), Method(name="b", sampler="random"), Method(name="c")]
    keys = {method.trial(DataSpec(name="digits"), PLAN, {}).passive_key("s") for method in methods}
    assert len(keys) == 1
    others = [
        Method(name="d", training={"members": 2}),
        Method(name="e", protocol="paper"),
        Method(name="f", beta=(1, 2)),
    ]
    assert len(keys | {method.trial(DataSpec(name="digits"), PLAN, {}).passive_key("s") for method in others}) == 4


def test_only_what_is_asked_for_is_run() -> None:
    made = suite(methods=[{"name": "a"}, {"name": "b"}], ceiling=True)
    assert [name for name, _ in made.trials(["b"])] == ["b", "b"]
    assert [(name, trial.data.seed) for name, trial in made.trials(["seed-1"])] == [("ceiling", 1), ("a", 1), ("b", 1)]


@pytest.mark.parametrize("name", suite_names())
def test_the_suites_that_come_along_make_trials(name: str) -> None:
    for each in read_suites(name).values():
        trials = [trial for _, trial in each.trials()]
        assert trials
        assert len({trial.model_dump_json() for trial in trials}) == len(trials)
        if each.baseline is not None:
            assert each.baseline in {method.name for entry in each.methods for method in entry.each()}


def test_the_smoke_suite_has_every_learner_sampler_protocol_and_figure() -> None:
    smoke = read_suite("smoke")
    methods = [method for entry in smoke.methods for method in entry.each()]
    assert {method.learner for method in methods} == set(LEARNERS)
    assert {method.sampler for method in methods} - {None} == set(SAMPLERS)
    assert {method.protocol for method in methods} == {"honest", "paper"}
    assert set(smoke.shows) == set(get_args(get_args(Suite.model_fields["shows"].annotation)[0]))


def test_every_loss_has_a_learner() -> None:
    kinds = {learner(name).member_losses[0].kind for name in LEARNERS}
    assert kinds == {kind().kind for kind in (*get_args(HingeLoss), *get_args(PooledLoss))}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("title = 3", "title"),
        ("title", "is no TOML"),
        ('title = "t"\ncolour = "red"', "colour"),
        ('title = "t"\n[[methods]]\nname = "m"\n[[methods]]\nname = "m"', "two methods called 'm'"),
        ('title = "t"\n[data.iris]\nseeds = [0]\nbudget = 1\nrounds = 1', "data"),
        ('title = "t"\n[data.digits]\nseeds = []\nbudget = 1\nrounds = 1', "seeds"),
        ('title = "t"\n[[methods]]\nname = "m"\nwarm_start = true\nbeta = [1, 2]', "cannot start warm"),
    ],
)
def test_a_suite_that_makes_no_sense_is_one_clear_error(content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(content)
    with pytest.raises(InvalidInput, match=message):
        read_suite(str(tmp_path / "s.toml"))


@pytest.mark.parametrize("name", ["nothing", "nothing.toml"])
def test_a_suite_that_is_not_there_is_named(name: str) -> None:
    with pytest.raises(InvalidInput, match=f"there is no (suite|file) '?{name}"):
        read_suite(name)


def test_a_learner_that_is_not_there_is_named() -> None:
    with pytest.raises(InvalidInput, match="there is no learner 'magic'; there are drbl, "):
        learner("magic")
