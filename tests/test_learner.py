"""One round in memory: what proposing and absorbing promise."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from admil.bags import Answer, AnswerValue, Bags, InstanceId, LabelBook, Query
from admil.errors import AnswerConflict, InvalidInput, UnknownInstance
from admil.learner import LearnerState, Recipe, Trainer, absorb, propose, refreshed
from admil.oracle import SimulatedAnnotator
from admil.sampling import PF, BagPosterior, FEntropy, RandomSampler
from admil.training import TrainedModel, TrainingRecipe
from tests.training.problems import bags_of, easy, recipe, same_weights, weights_of

SHORT = Recipe(training=recipe(max_steps=5), sampler=FEntropy(), budget=3)


def started(bags: Bags, seed: int = 0) -> LearnerState:
    return LearnerState(seed, LabelBook(bags.index))


def proposed(bags: Bags, made: Recipe = SHORT, seed: int = 0) -> LearnerState:
    return propose(made, bags, started(bags, seed))


def model_of(state: LearnerState) -> TrainedModel:
    assert state.model is not None
    return state.model


def answers(instances: Iterable[InstanceId], value: object = None) -> list[Answer]:
    return [Answer(instance, AnswerValue.of(value)) for instance in instances]


def asked(state: LearnerState) -> Query:
    assert state.query is not None
    return state.query


def test_proposing_opens_a_round_with_at_most_the_budget() -> None:
    bags, _ = easy()
    state = proposed(bags)
    assert (state.round, len(asked(state))) == (0, 3)
    assert state.open_items == asked(state)
    assert state.is_current
    assert all(bags.index.number(instance.bag) in bags.index.positive for instance in asked(state).ids)


def test_a_record_tells_what_was_known_when_the_round_was_opened() -> None:
    bags = bags_of([4, 4, 3, 3], [1, 1, 0, 0])
    given_ = [Answer(InstanceId("bag0", at), AnswerValue.of(value)) for at, value in enumerate([True, False, None])]
    state = propose(SHORT, bags, absorb(started(bags), given_))
    (record,) = state.history
    assert (record.round, record.asked) == (0, asked(state).ids)
    assert (record.answered, record.positives, record.skipped, record.bags_confirmed) == (2, 1, 1, 1)
    history = model_of(state).history
    assert (record.held_out_auroc, record.steps) == (history.held_out_auroc, history.best_step)


def test_the_round_closes_once_all_of_the_query_is_answered() -> None:
    bags, _ = easy()
    state = proposed(bags)
    first, *rest = asked(state).ids
    part = absorb(state, answers([first], True))
    assert (part.round, part.open_items.ids) == (0, tuple(rest))
    assert not part.is_current
    closed = absorb(part, answers(rest, None))
    assert (closed.round, closed.query, len(closed.open_items)) == (1, None, 0)
    assert closed.history == state.history


def test_answers_are_taken_together_or_not_at_all() -> None:
    bags, _ = easy()
    state = proposed(bags)
    good = answers(asked(state).ids, True)
    for bad, error in (
        (Answer(InstanceId("nowhere", 0), AnswerValue.POSITIVE), UnknownInstance),
        (Answer(InstanceId("bag0", 99), AnswerValue.POSITIVE), UnknownInstance),
        (Answer(InstanceId("bag1", 0), AnswerValue.POSITIVE), AnswerConflict),
        (Answer(good[0].instance, AnswerValue.NEGATIVE), AnswerConflict),
        (Answer(InstanceId("bag0", 0), AnswerValue.RETRACTED), AnswerConflict),
    ):
        before = state.labels.answers
        with pytest.raises(error):
            absorb(state, [*[a for a in good if a.instance != InstanceId("bag0", 0)], bad])
        assert state.labels.answers == before == ()


def test_answers_about_instances_that_were_not_asked_are_welcome() -> None:
    bags = bags_of([5, 5, 2], [1, 1, 0])
    state = proposed(bags)
    others = [InstanceId("bag0", at) for at in range(5) if InstanceId("bag0", at) not in asked(state).ids]
    after = absorb(state, answers(others[:1], False))
    assert after.labels.of(others[0]) is AnswerValue.NEGATIVE
    assert (after.round, after.query) == (0, state.query)


def test_a_retracted_answer_opens_its_question_again() -> None:
    bags, _ = easy()
    state = proposed(bags)
    first, second, third = asked(state).ids
    part = absorb(absorb(state, answers([first, second], False)), answers([first], "retracted"))
    assert part.open_items.ids == (first, third)
    closed = absorb(part, answers([first, third], True))
    assert (closed.round, closed.query) == (1, None)


def test_an_answer_given_and_retracted_at_once_leaves_the_question_open() -> None:
    bags, _ = easy()
    state = proposed(bags)
    first = asked(state).ids[:1]
    after = absorb(state, [*answers(first, True), *answers(first, "retracted")])
    assert after.open_items.ids == asked(state).ids


def test_an_answer_retracted_after_the_round_closed_does_not_reopen_it() -> None:
    bags, _ = easy()
    state = proposed(bags)
    closed = absorb(state, answers(asked(state).ids, False))
    after = absorb(closed, answers(asked(state).ids[:1], "retracted"))
    assert (after.round, after.query) == (1, None)
    again = propose(SHORT.model_copy(update={"budget": 100}), bags, after)
    assert asked(state).ids[0] in asked(again).ids
    assert not set(asked(state).ids[1:]) & set(asked(again).ids)


def test_a_round_proposed_over_an_open_one_closes_it_as_it_stands() -> None:
    bags, _ = easy()
    state = proposed(bags)
    part = absorb(state, answers(asked(state).ids[:1], True))
    again = propose(SHORT, bags, part)
    assert again.round == 1
    assert asked(state).ids[0] not in asked(again).ids
    assert [record.round for record in again.history] == [0, 1]


def test_a_model_that_has_seen_every_answer_is_not_trained_again() -> None:
    bags, _ = easy()
    state = proposed(bags)
    assert refreshed(SHORT, bags, state) is state
    assert propose(SHORT, bags, state).model is state.model
    more = absorb(state, answers(asked(state).ids, None))
    assert not more.is_current
    assert refreshed(SHORT, bags, more).model is not state.model


def test_no_answers_change_nothing() -> None:
    bags, _ = easy()
    state = proposed(bags)
    after = absorb(state, [])
    assert (after.round, after.query, after.labels, after.is_current) == (0, state.query, state.labels, True)


def test_the_same_state_proposes_the_same_and_another_seed_does_not() -> None:
    bags, _ = easy()
    made = Recipe(training=recipe(max_steps=5), sampler=RandomSampler(), budget=5)
    one, same, other = proposed(bags, made), proposed(bags, made), proposed(bags, made, seed=1)
    assert asked(one) == asked(same)
    assert asked(one).ids != asked(other).ids
    assert same_weights(model_of(one), model_of(same))
    assert not same_weights(model_of(one), model_of(other))


def test_rounds_draw_anew() -> None:
    bags, _ = easy(per_class=20)
    made = Recipe(training=recipe(max_steps=2), sampler=RandomSampler(), budget=5)
    first = proposed(bags, made)
    second = propose(made, bags, first)
    assert second.model is first.model, "no answer came"
    assert asked(first).ids != asked(second).ids


def test_a_warm_start_goes_on_from_the_last_rounds_weights() -> None:
    bags, _ = easy()
    tiny = recipe(max_steps=1, learning_rate=1e-9)
    for warm in (True, False):
        made = Recipe(training=tiny, sampler=FEntropy(), budget=2, warm_start=warm)
        first = proposed(bags, made)
        second = propose(made, bags, absorb(first, answers(asked(first).ids, None)))
        weights = zip(weights_of(model_of(first)), weights_of(model_of(second)), strict=True)
        assert all(torch.allclose(before, after, rtol=0, atol=1e-6) for before, after in weights) is warm


def test_groups_reach_the_folds() -> None:
    bags, _ = easy()
    groups = ["a", "b", "c"] * 4
    state = propose(SHORT, bags, started(bags), Trainer(groups=groups))
    plain = proposed(bags)
    assert not same_weights(model_of(state), model_of(plain))


def test_unlabelled_bags_cannot_be_learned_from() -> None:
    with pytest.raises(InvalidInput, match="every bag needs a label here"):
        started(bags_of([2, 2], None))


@settings(max_examples=15)
@given(data=st.data())
def test_whatever_is_answered_every_candidate_is_asked_once_and_then_nothing_is_left(data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.integers(1, 4), min_size=2, max_size=4))
    bags = bags_of([*sizes, 2], [*[1] * len(sizes), 0])
    made = Recipe(training=recipe(max_steps=1, hidden=()), sampler=FEntropy(), budget=data.draw(st.integers(1, 6)))
    state = started(bags)
    seen: list[InstanceId] = []
    while len((state := propose(made, bags, state)).open_items):
        seen += asked(state).ids
        for instance in asked(state).ids:
            # never False for the first of a bag: a bag answered negative throughout would be an error
            value = data.draw(st.sampled_from([True, None] if instance.index == 0 else [True, False, None]))
            state = absorb(state, answers([instance], value))
    assert len(seen) == len(set(seen))
    assert "nothing is left to ask" in asked(state).note
    assert not state.labels.candidates.any()


def test_recipes_go_by_name() -> None:
    assert Recipe.named("default") == Recipe()
    paper = Recipe.named("paper")
    assert (paper.training, paper.sampler) == (TrainingRecipe.paper(), PF())
    with pytest.raises(InvalidInput, match="no recipe 'best'; the names are 'default' and 'paper'"):
        Recipe.named("best")  # type: ignore[arg-type]


def test_a_sampler_may_be_given_by_its_fields() -> None:
    made = Recipe.model_validate({"sampler": {"kind": "pf", "per_bag": 3}})
    assert made.sampler == PF(per_bag=3)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"budget": 0}, "budget"),
        ({"budget": 2.5}, "budget"),
        ({"budget": True}, "budget"),
        ({"sampler": "pf"}, "expected a sampler"),
        ({"sampler": {"kind": "best"}}, "expected a sampler"),
        ({"sampler": PF}, "expected a sampler"),
        ({"seed": 3}, "Recipe has no field 'seed'; its fields are: training, sampler, budget, warm_start"),
    ],
    ids=str,
)
def test_recipes_that_make_no_sense_are_refused(fields: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Recipe.model_validate(fields)


def test_rounds_follow_one_another() -> None:
    bags, truth = easy(seed=2, per_class=12)
    annotator = SimulatedAnnotator(truth)
    made = Recipe(training=recipe(max_steps=25), sampler=BagPosterior(), budget=4)
    state = started(bags)
    for _ in range(3):
        state = propose(made, bags, state)
        state = absorb(state, [Answer(i, AnswerValue.of(v)) for i, v in annotator.answer(asked(state)).items()])
    assert (state.round, state.query) == (3, None)
    assert [record.round for record in state.history] == [0, 1, 2]
    assert [record.answered for record in state.history] == [0, 4, 8]
    said = [AnswerValue.of(truth[instance]) for record in state.history for instance in record.asked]
    assert [answer.value for answer in state.labels.answers] == said


def test_what_the_answers_imply_leaves_the_open_query_and_may_close_it() -> None:
    bags = bags_of([2, 3], [1, 0])
    state = proposed(bags, SHORT.model_copy(update={"budget": 2}))
    first, second = asked(state).ids
    closed = absorb(state, answers([first], False))
    assert closed.query is None, "the other instance of the positive bag must be positive"
    assert closed.labels.knows(second)
    kept = absorb(state, answers([first], True))
    assert kept.open_items.ids == (second,)
