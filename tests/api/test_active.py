"""The learner a Python user meets: what it asks, what it takes, and what leaves it as it was."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from torch import Generator, nn

from admil.api import ActiveLearner
from admil.bags import AnswerValue, Bags, InstanceId, LabelBook, Need, Query, Scores
from admil.errors import AdmilWarning, AnswerConflict, InvalidInput, UnknownInstance
from admil.functional import Robustness
from admil.learner import Recipe
from admil.losses import Drbl
from admil.metrics import average_precision
from admil.oracle import SimulatedAnnotator, Truth
from admil.sampling import BagPosterior, FEntropy, RandomSampler
from admil.training import Progress, TrainingInterrupted, TrainingRecipe
from tests.training.problems import bags_of, easy, recipe, same_weights

ROOT = Path(__file__).parent.parent.parent


def short(**changes: Any) -> Recipe:
    fields = {"training": recipe(max_steps=4), "sampler": FEntropy(), "budget": 3, "warm_start": False}
    return Recipe.model_validate({**fields, **changes})


def learner_of(bags: Bags | None = None, made: Recipe | None = None, seed: int = 0, **changes: Any) -> ActiveLearner:
    return ActiveLearner(easy()[0] if bags is None else bags, made or short(), seed, **changes)


def test_asking_again_gives_the_same_questions() -> None:
    learner = learner_of()
    query = learner.query()
    assert len(query) == 3
    assert learner.query() == query
    assert (learner.round, len(learner.history)) == (0, 1)


def test_answered_questions_are_not_asked_again() -> None:
    learner = learner_of()
    first, second, third = learner.query().ids
    learner.answer({second: False})
    assert learner.query().ids == (first, third)
    learner.answer({first: None})
    assert learner.query().ids == (third,)
    assert learner.round == 0
    learner.answer({third: True})
    assert learner.round == 1
    assert not set(learner.query().ids) & {first, second, third}
    assert len(learner.history) == 2


def test_all_answers_at_once_or_one_by_one_lead_to_the_same_next_query() -> None:
    one, other = learner_of(), learner_of()
    query = one.query()
    one.answer(dict.fromkeys(query.ids))
    other.query()
    for instance in query.ids:
        other.answer({instance: None})
        other.query()
    assert one.query() == other.query()


def test_the_next_round_may_start_before_the_open_one_is_answered() -> None:
    learner = learner_of()
    first = learner.query().ids[0]
    learner.answer({first: True})
    query = learner.next_round()
    assert learner.round == 1
    assert first not in query.ids
    assert learner.query() == query
    assert [record.answered for record in learner.history] == [0, 1]


def test_instances_are_named_by_an_id_or_by_bag_and_index() -> None:
    learner = learner_of(bags_of([4, 4, 2], [1, 1, 0]))
    learner.answer({InstanceId("bag0", 0): True, ("bag0", 1): False, ("bag1", np.int64(2)): None})
    expected = {("bag0", 0): "positive", ("bag0", 1): "negative", ("bag1", 2): "skipped"}
    assert {(i.bag, i.index): value.value for i, value in learner.labels.current.items()} == expected


@pytest.mark.parametrize(
    "key", ["b0", "bag0", ("bag0",), ("bag0", 1.5), ("bag0", "1"), ("bag0", 1, 2), 3, None], ids=repr
)
def test_other_names_of_an_instance_are_refused(key: Any) -> None:
    """A string of two characters would unpack to a bag and an index."""
    learner = ActiveLearner(Bags.from_arrays([[[0.0]] * 3, [[1.0]]], [1, 0], ["b", "c"]), short())
    with pytest.raises(InvalidInput, match=r"an instance is named by InstanceId or \(bag id, index\), got"):
        learner.answer({key: True})


@pytest.mark.parametrize("value", [1, 0, "yes", 0.5, float("nan")], ids=repr)
def test_an_answer_is_true_false_or_none(value: Any) -> None:
    learner = learner_of()
    with pytest.raises(InvalidInput, match=r"an answer is True, False or None \(skipped\), got"):
        learner.answer({("bag0", 0): value})


def test_answers_that_cannot_be_change_nothing() -> None:
    learner = learner_of(bags_of([4, 4, 2], [1, 1, 0]))
    query = learner.query()
    learner.answer({query.ids[0]: True})
    before = learner.labels.answers
    for key, error, message in (
        (("nowhere", 0), UnknownInstance, "there is no bag 'nowhere'"),
        (("bag0", 4), UnknownInstance, "bag 'bag0' has 4 instances, indexed 0 to 3"),
        (("bag0", -1), UnknownInstance, "there is no instance"),
        (("bag2", 0), AnswerConflict, "lies in a negative bag"),
        (query.ids[0], AnswerConflict, "answered positive, now it is answered negative"),
    ):
        with pytest.raises(error, match=message):
            learner.answer({query.ids[1]: False, key: False})
    with pytest.raises(AnswerConflict, match="has no answer to take back"):
        learner.undo(query.ids[1])
    assert learner.labels.answers == before
    assert learner.query().ids == query.ids[1:]
    assert learner.round == 0


def test_taking_an_answer_back_opens_its_question() -> None:
    learner = learner_of()
    first, second, third = learner.query().ids
    learner.answer({first: True, second: None})
    learner.undo((first.bag, first.index))
    assert learner.query().ids == (first, third)
    learner.answer({first: False})
    assert learner.labels.of(first) is AnswerValue.NEGATIVE


def test_an_answer_taken_back_between_rounds_may_be_asked_again() -> None:
    learner = learner_of(made=short(budget=4))
    asked = learner.query().ids
    learner.answer(dict.fromkeys(asked))
    learner.undo(asked[0])
    assert learner.round == 1
    everything = learner_of(made=short(budget=100))
    everything.answer(dict.fromkeys(asked[1:]))
    again = learner.query()
    assert asked[0] in everything.query().ids
    assert not set(asked[1:]) & set(again.ids)


def test_once_everything_is_answered_the_query_is_empty_and_says_so() -> None:
    bags = bags_of([3, 2, 3], [1, 1, 0])
    learner = learner_of(bags, short(budget=10))
    query = learner.query()
    assert len(query) == 5
    assert query.note == "only 5 instances are left to ask, the budget was 10"
    learner.answer({instance: instance.index == 0 for instance in query.ids})
    empty = learner.query()
    assert (len(empty), bool(empty)) == (0, False)
    assert empty.note.startswith("nothing is left to ask")
    rounds = learner.round, len(learner.history)
    assert learner.query() == empty
    assert (learner.round, len(learner.history)) == rounds, "asking again opens no round"
    learner.undo(("bag0", 1))
    assert learner.query().ids == (InstanceId("bag0", 1),)
    learner.answer({("bag0", 1): True})
    assert len(learner.query()) == 0


def test_answers_may_come_before_the_first_query() -> None:
    learner = learner_of()
    learner.answer({("bag0", 0): True})
    assert learner.round == 0
    assert InstanceId("bag0", 0) not in learner.query().ids
    assert learner.history[0].positives == 1


def test_undoing_everything_and_answering_nothing_is_no_round() -> None:
    learner = learner_of()
    learner.answer({("bag0", 0): True})
    learner.undo(("bag0", 0))
    learner.answer({})
    assert (learner.round, dict(learner.labels.current)) == (0, {})
    assert len(learner.query()) == 3


def test_the_seed_decides_the_questions() -> None:
    made = short(sampler=RandomSampler(), budget=6)
    queries = [learner_of(made=made, seed=seed).query().ids for seed in (0, 0, 1, 2)]
    assert queries[0] == queries[1]
    assert len({*queries}) == 3


def test_another_process_asks_the_same_questions() -> None:
    script = "from tests.api.test_active import three_rounds; import json; print(json.dumps(three_rounds()))"
    environment = {**os.environ, "PYTHONHASHSEED": "271828", "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", script], env=environment, cwd=ROOT, capture_output=True, check=True)
    assert json.loads(done.stdout) == three_rounds()


def three_rounds() -> list[Any]:
    """Return questions and scores of three rounds with everything random that there is."""
    training = recipe(max_steps=6, dropout=0.5, member_share=0.5, members=3, bags_per_side=3, positives_per_step=1)
    learner = learner_of(made=Recipe(training=training, sampler=BagPosterior(), budget=3, warm_start=True), seed=4)
    told: list[Any] = []
    for _ in range(3):
        query = learner.query()
        told += [[[item.id.bag, item.id.index, item.f, item.p, item.bag_score] for item in query]]
        learner.answer({instance: bool((instance.index + 1) % 2) for instance in query.ids})
    return [*told, learner.score().f.tolist()]


@pytest.mark.parametrize("warm_start", [False, True])
def test_scoring_never_changes_what_is_asked_later(warm_start: bool) -> None:
    made = short(warm_start=warm_start, training=recipe(max_steps=4, dropout=0.5))

    def play(look: Callable[[ActiveLearner], object]) -> list[Query]:
        learner = learner_of(made=made)
        look(learner)
        learner.answer({("bag0", 0): True})
        queries = []
        for _ in range(3):
            look(learner)
            query = learner.query()
            look(learner)
            learner.answer({query.ids[0]: None})
            look(learner)
            learner.answer(dict.fromkeys(query.ids[1:]))
            look(learner)
            learner.undo(query.ids[1])
            queries.append(query)
        return queries

    assert play(lambda learner: learner.score()) == play(lambda learner: None)


def test_scores_have_seen_every_answer() -> None:
    learner = learner_of(made=short(budget=2))
    first, second = learner.query().ids
    before = learner.score()
    learner.answer({first: False})
    during = learner.score()
    assert not np.array_equal(during.f, before.f)
    assert during.p[learner.bags.index.position(first)] == 0
    assert learner.model is learner.model, "trained once"
    learner.answer({second: None})
    after = learner.score()
    assert not np.array_equal(after.f, during.f), "the next round's model has a seed of its own"
    assert learner.query()[0].f in after.f.tolist(), "and its query comes from that very model"


def test_a_model_trained_for_scores_between_rounds_serves_the_next_query() -> None:
    for warm_start in (False, True):
        steps: list[Progress] = []
        learner = learner_of(made=short(warm_start=warm_start), on_step=steps.append)
        learner.score()
        learner.query()
        assert len(steps) == 4
        learner.answer(dict.fromkeys(learner.query().ids))
        learner.score()
        learner.score()
        learner.query()
        assert len(steps) == 8


def test_other_bags_are_scored_by_the_same_model() -> None:
    learner = learner_of()
    new = bags_of([2, 5], None, width=4)
    assert learner.score(new).f.shape == (7,)
    assert np.array_equal(learner.score(learner.bags).f, learner.score().f)
    with pytest.raises(InvalidInput, match="trained on instances of 4 features, these bags have 3"):
        learner.score(bags_of([2], None, width=3))


class Ctrl:
    """Presses Ctrl-C once, after a number of steps."""

    def __init__(self, after: int) -> None:
        self.left = after

    def __call__(self, progress: Progress) -> None:
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


@pytest.mark.parametrize("after", [1, 3, 6])
def test_ctrl_c_leaves_the_learner_as_it_was(after: int) -> None:
    learner = learner_of(on_step=Ctrl(after))
    undisturbed = learner_of()
    expected = [undisturbed.query()]
    undisturbed.answer(dict.fromkeys(expected[0].ids))
    expected.append(undisturbed.query())
    queries: list[Query] = []
    interrupted = 0
    while len(queries) < 2:
        before = learner.round, learner.labels, len(learner.history)
        try:
            queries.append(learner.query())
        except TrainingInterrupted:
            interrupted += 1
            assert (learner.round, learner.labels, len(learner.history)) == before
            continue
        if len(queries) == 1:
            learner.answer(dict.fromkeys(queries[0].ids))
    assert interrupted == 1
    assert queries == expected


def test_ctrl_c_while_scoring_leaves_the_learner_as_it_was() -> None:
    learner = learner_of(on_step=Ctrl(6))
    query = learner.query()
    learner.answer({query.ids[0]: None})
    with pytest.raises(TrainingInterrupted):
        learner.score()
    assert learner.query().ids == query.ids[1:]
    undisturbed = learner_of()
    undisturbed.query()
    undisturbed.answer({query.ids[0]: None})
    assert np.array_equal(learner.score().f, undisturbed.score().f)


@dataclass(frozen=True)
class Broken:
    """A sampler that fails."""

    needs: tuple[Need, ...] = ()

    def select(self, scores: Scores, labels: LabelBook, budget: int, generator: Generator) -> Query:
        raise RuntimeError("out of ideas")


def test_a_sampler_that_fails_leaves_the_learner_as_it_was() -> None:
    learner = learner_of(made=short(sampler=Broken()))
    with pytest.raises(RuntimeError, match="out of ideas"):
        learner.query()
    assert (learner.round, learner.history, learner.labels.answers) == (0, (), ())


def test_an_own_module_and_groups_are_trained_with() -> None:
    groups = [number // 3 for number in range(12)]
    learner = learner_of(groups=groups, module=lambda width: nn.Linear(width, 1))
    assert len(learner.query()) == 3
    assert same_weights(learner.model, learner_of(groups=groups, module=lambda width: nn.Linear(width, 1)).model)


@pytest.mark.parametrize("seed", [-1, 0.5, True, "1", None], ids=repr)
def test_the_seed_is_a_whole_number(seed: Any) -> None:
    with pytest.raises(InvalidInput, match="the seed is a whole number >= 0, got"):
        ActiveLearner(easy()[0], short(), seed)


def test_a_seed_may_come_from_numpy() -> None:
    learner = learner_of(seed=np.int64(3))  # type: ignore[arg-type]
    assert learner.query() == learner_of(seed=3).query()
    assert type(learner.seed) is int


def test_a_recipe_is_a_recipe_or_the_name_of_one() -> None:
    bags, _ = easy()
    assert ActiveLearner(bags).recipe == Recipe()
    assert ActiveLearner(bags, "paper").recipe == Recipe.named("paper")
    with pytest.raises(InvalidInput, match="no recipe 'best'"):
        ActiveLearner(bags, "best")
    with pytest.raises(InvalidInput, match=r"expected a Recipe or the name of one, got .* try Recipe\(training=…\)"):
        ActiveLearner(bags, TrainingRecipe())  # type: ignore[arg-type]


def test_unlabelled_bags_are_refused_at_once() -> None:
    with pytest.raises(InvalidInput, match="every bag needs a label here"):
        ActiveLearner(bags_of([2, 2], None))


def test_answers_raise_the_average_precision() -> None:
    """Bag labels alone cannot tell two marks of positive bags apart; the annotator can."""
    chance = np.random.default_rng(1)
    rows = chance.normal(size=(40, 5, 6)) * 0.5
    rows[::2, 0, 0] += 3
    rows[::2, 1, 1] += 3
    bags = Bags.from_arrays(list(rows), [1, 0] * 20)
    positive = np.zeros(200, dtype=bool)
    positive[np.arange(0, 200, 10)] = True
    annotator = SimulatedAnnotator(Truth(bags.index, positive))
    learner = ActiveLearner(bags, Recipe(training=recipe(max_steps=40), sampler=FEntropy(), budget=10))
    unanswered = np.ones(200, dtype=bool)
    before = learner.score().f
    for _ in range(3):
        query = learner.query()
        learner.answer(annotator.answer(query))
        unanswered[[bags.index.position(instance) for instance in query.ids]] = False
    after = learner.score().f
    held = positive[unanswered], unanswered
    assert average_precision(held[0], before[held[1]]) < 0.8
    assert average_precision(held[0], after[held[1]]) > average_precision(held[0], before[held[1]]) + 0.1


class AnyUse(RuleBasedStateMachine):
    """Any order of calls keeps the learner's promises."""

    def __init__(self) -> None:
        super().__init__()
        bags = bags_of([3, 1, 2, 2, 1], [1, 1, 1, 0, 0])
        self.learner = learner_of(bags, short(training=recipe(max_steps=1, members=1, hidden=()), budget=2))
        self.open: tuple[InstanceId, ...] = ()

    def current(self) -> list[InstanceId]:
        return list(self.learner.labels.current)

    @rule()
    def ask(self) -> None:
        query = self.learner.query()
        if self.open:
            assert query.ids == self.open
        self.open = query.ids
        assert bool(query) or "nothing is left" in query.note

    @rule()
    def ask_anew(self) -> None:
        self.open = self.learner.next_round().ids

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def answer_some(self, data: st.DataObject) -> None:
        chosen = data.draw(st.lists(st.sampled_from(self.open), min_size=1, unique=True))
        # the first of a bag is never negative: a bag answered negative throughout only warns
        self.learner.answer(
            {i: data.draw(st.sampled_from([True, None] if i.index == 0 else [True, False, None])) for i in chosen}
        )
        self.open = tuple(instance for instance in self.open if instance not in chosen)

    @precondition(lambda self: self.current())
    @rule(data=st.data())
    def take_back(self, data: st.DataObject) -> None:
        instance = data.draw(st.sampled_from(self.current()))
        asked = self.learner.history[-1].asked if self.learner.history else ()
        was_open = len(self.learner.history) > self.learner.round
        self.learner.undo(instance)
        if was_open and instance in asked:
            self.open = tuple(i for i in asked if self.learner.labels.of(i) is None)

    @rule()
    def score(self) -> None:
        scores = self.learner.score()
        assert np.isfinite(scores.f).all()
        assert self.learner.model is self.learner.model

    @invariant()
    def open_questions_are_unanswered(self) -> None:
        assert not set(self.open) & set(self.current())
        assert len(self.learner.history) in (self.learner.round, self.learner.round + 1)


TestAnyUse = AnyUse.TestCase
TestAnyUse.settings = settings(max_examples=15, stateful_step_count=15)


def test_what_is_no_bags_is_refused_with_the_way_to_make_some() -> None:
    for wrong in ([np.zeros((2, 3))], None, np.zeros((2, 3))):
        with pytest.raises(InvalidInput, match=r"expected bags, got .*; make them with Bags\.from_arrays"):
            ActiveLearner(wrong)  # type: ignore[arg-type]


def test_a_bag_that_is_answered_negative_throughout_is_told_of_at_once_and_once() -> None:
    bags, _ = easy()
    learner = learner_of(bags)
    first = int(bags.index.positive[0])
    instances = [bags.index.instance(int(at)) for at in bags.index.positions(np.array([first]))]
    learner.answer(dict.fromkeys(instances[:-1], False))
    with pytest.warns(AdmilWarning, match=f"every instance of positive bag '{bags.ids[first]}' is answered") as caught:
        learner.answer({instances[-1]: False})
    assert [Path(each.filename) for each in caught] == [Path(__file__)], "the user's line, not ours"
    learner.answer({bags.index.instance(int(bags.index.positions(np.array([2]))[0])): None})
    learner.undo(instances[-1])


def test_the_ranking_begins_with_known_positives_and_leaves_out_known_negatives() -> None:
    bags, _ = easy()
    learner = learner_of(bags)
    positive = [int(number) for number in bags.index.positive]
    large = [bag for bag in positive if bags.index.sizes[bag] > 2]
    yes, skipped, no = (InstanceId(bags.ids[bag], 0) for bag in large[:3])
    learner.answer({yes: True, skipped: None, no: False})
    ranking = learner.ranking()
    f = learner.score().f
    sole = {InstanceId(bags.ids[bag], 0) for bag in positive if bags.index.sizes[bag] == 1}
    known = 1 + len(sole)
    assert set(ranking[:known]) == {yes} | sole
    assert no not in ranking
    assert skipped in ranking[known:]
    assert {instance.bag for instance in ranking} <= {bags.ids[bag] for bag in positive}
    assert len(ranking) == sum(int(bags.index.sizes[bag]) for bag in positive) - 1
    rest = [f[bags.index.position(instance)] for instance in ranking[known:]]
    assert rest == sorted(rest, reverse=True)


def test_what_is_implied_ranks_with_the_known_positives() -> None:
    bags = bags_of([2, 3, 2, 2], [1, 1, 0, 0])
    learner = learner_of(bags)
    learner.answer({InstanceId("bag0", 0): False})
    assert learner.ranking()[0] == InstanceId("bag0", 1)


def test_notes_say_what_training_noted() -> None:
    bags = bags_of([1, 3, 2, 2], [1, 1, 0, 0])
    learner = learner_of(bags, short(training=recipe(max_steps=2, loss=Drbl(robustness=Robustness.effective(3)))))
    assert not learner.notes
    learner.query()
    assert any("k = 3 is above the size of 1 positive bags" in note for note in learner.notes)
