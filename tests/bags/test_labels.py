"""The label book: what may be answered, what follows from it, and that it is a fold over the answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from admil.bags import Answer, AnswerValue, BagIndex, InstanceId, LabelBook, LabelState
from admil.errors import AdmilError, AnswerConflict, InvalidInput, UnknownInstance

YES, NO, SKIP, BACK = AnswerValue.POSITIVE, AnswerValue.NEGATIVE, AnswerValue.SKIPPED, AnswerValue.RETRACTED
UNKNOWN, POSITIVE, NEGATIVE, SKIPPED, IMPLIED = range(5)


def book_of(sizes: Sequence[int] = (3, 2, 1), labels: Sequence[int] = (1, 0, 1)) -> LabelBook:
    """Return an empty book of bags "a", "b", … of the given sizes; by default "b" is negative."""
    return LabelBook(BagIndex(tuple("abcdefgh"[: len(sizes)]), np.cumsum([0, *sizes]), np.array(labels)))


def answered(book: LabelBook, *answers: tuple[str, int, AnswerValue]) -> LabelBook:
    return book.extended([Answer(InstanceId(bag, place), value) for bag, place, value in answers])


def states(book: LabelBook) -> list[int]:
    return [int(state) for state in book.state]


# --- answers ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "value"),
    [
        (True, YES),
        (False, NO),
        (None, SKIP),
        (np.True_, YES),
        (np.False_, NO),
        ("positive", YES),
        ("negative", NO),
        ("skipped", SKIP),
        ("retracted", BACK),
        (YES, YES),
    ],
    ids=repr,
)
def test_what_people_say_is_read(said: Any, value: AnswerValue) -> None:
    assert AnswerValue.of(said) is value
    assert Answer(InstanceId("a", 0), said).value is value


@pytest.mark.parametrize("said", ["maybe", "", "Positive", 1, 0, -1, 1.0, float("nan"), [True], {}], ids=repr)
def test_anything_else_is_refused(said: Any) -> None:
    with pytest.raises(InvalidInput, match="an answer is True, False or None"):
        Answer(InstanceId("a", 0), said)
    with pytest.raises(InvalidInput, match=r"an answer is True, False or None \(skipped\), got ") as error:
        AnswerValue.of(said)
    assert error.value.subject is said


def test_states_count_as_written_out() -> None:
    assert [(state.name, int(state)) for state in LabelState] == [
        ("UNKNOWN", UNKNOWN),
        ("POSITIVE", POSITIVE),
        ("NEGATIVE", NEGATIVE),
        ("SKIPPED", SKIPPED),
        ("IMPLIED", IMPLIED),
    ]


# --- one book after another ---------------------------------------------------------------------


def test_an_empty_book_knows_only_that_the_one_instance_of_a_positive_bag_is_positive() -> None:
    book = book_of()
    assert states(book) == [UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, IMPLIED]
    assert book.positives.tolist() == [5]
    assert book.negatives.tolist() == []
    assert book.confirmed.tolist() == [False, False, True]
    assert book.candidates.tolist() == [True, True, True, False, False, False]
    assert book.contradicted == ()
    assert [book.count(value) for value in AnswerValue] == [0, 0, 0, 0]


def test_answers_become_states() -> None:
    book = answered(book_of((4, 2), (1, 1)), ("a", 2, YES), ("a", 0, NO), ("b", 1, SKIP))
    assert states(book) == [NEGATIVE, UNKNOWN, POSITIVE, UNKNOWN, UNKNOWN, SKIPPED]
    assert book.positives.tolist() == [2]
    assert book.negatives.tolist() == [0]
    assert book.confirmed.tolist() == [True, False]
    assert book.candidates.tolist() == [False, True, False, True, True, False]
    assert book.of(InstanceId("a", 2)) is YES
    assert book.of(InstanceId("b", 1)) is SKIP
    assert book.of(InstanceId("a", 1)) is None
    assert [book.count(value) for value in (YES, NO, SKIP, BACK)] == [1, 1, 1, 0]


def test_extending_returns_a_new_book_and_keeps_the_order_of_answers() -> None:
    empty = book_of()
    one = answered(empty, ("a", 0, YES))
    two = answered(one, ("a", 1, NO))
    assert empty.answers == ()
    assert states(one)[:2] == [POSITIVE, UNKNOWN]
    assert states(two)[:2] == [POSITIVE, NEGATIVE]
    assert two.answers == (Answer(InstanceId("a", 0), YES), Answer(InstanceId("a", 1), NO))
    assert two == answered(empty, ("a", 0, YES), ("a", 1, NO))
    assert two != answered(empty, ("a", 1, NO), ("a", 0, YES))
    assert two == LabelBook(empty.index, two.answers)
    assert empty.extended([]) == empty
    assert empty.extended(iter(two.answers)) == two


def test_a_skipped_instance_may_still_be_answered_either_way() -> None:
    skipped = answered(book_of(), ("a", 0, SKIP))
    assert answered(skipped, ("a", 0, YES)).of(InstanceId("a", 0)) is YES
    assert answered(skipped, ("a", 0, NO)).of(InstanceId("a", 0)) is NO
    assert answered(skipped, ("a", 0, NO)).count(SKIP) == 0


def test_an_answer_taken_back_leaves_no_trace_but_in_the_answers() -> None:
    for value in (YES, NO, SKIP):
        book = answered(book_of(), ("a", 0, value)).retracted(InstanceId("a", 0))
        assert states(book) == states(book_of())
        assert book.of(InstanceId("a", 0)) is None
        assert [answer.value for answer in book.answers] == [value, BACK]
        assert book.count(BACK) == 0


def test_an_answer_taken_back_may_be_given_again_the_other_way() -> None:
    book = answered(book_of(), ("a", 0, YES), ("a", 0, BACK), ("a", 0, NO))
    assert states(book)[:3] == [NEGATIVE, UNKNOWN, UNKNOWN]


def test_the_state_cannot_be_written_to() -> None:
    book = book_of()
    with pytest.raises(ValueError, match="read-only"):
        book.state[0] = POSITIVE
    current: Any = book.current
    with pytest.raises(TypeError, match="does not support item assignment"):
        current[InstanceId("a", 0)] = YES


# --- what contradicts ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        (YES, NO, r"instance a\[1\] has been answered positive, now it is answered negative; take the first answer"),
        (NO, YES, r"instance a\[1\] has been answered negative, now it is answered positive; take the first answer"),
        (YES, SKIP, r"instance a\[1\] has been answered positive, now it is answered skipped"),
        (NO, SKIP, r"instance a\[1\] has been answered negative, now it is answered skipped"),
        (YES, YES, r"instance a\[1\] has been answered positive already"),
        (NO, NO, r"instance a\[1\] has been answered negative already"),
        (SKIP, SKIP, r"instance a\[1\] has been answered skipped already"),
    ],
)
def test_a_second_answer_is_refused(first: AnswerValue, second: AnswerValue, message: str) -> None:
    book = answered(book_of(), ("a", 1, first))
    with pytest.raises(AnswerConflict, match=message) as error:
        answered(book, ("a", 1, second))
    assert error.value.subject == InstanceId("a", 1)
    with pytest.raises(AnswerConflict, match=message):
        answered(book_of(), ("a", 1, first), ("a", 1, second))  # also within one extension


@pytest.mark.parametrize("value", list(AnswerValue))
def test_an_instance_of_a_negative_bag_is_not_asked_about(value: AnswerValue) -> None:
    with pytest.raises(AnswerConflict, match=r"instance b\[0\] lies in a negative bag.*bag's label is wrong"):
        answered(book_of(), ("b", 0, value))


@pytest.mark.parametrize("value", list(AnswerValue))
def test_an_unknown_instance_or_bag_is_refused_by_name(value: AnswerValue) -> None:
    with pytest.raises(UnknownInstance, match=r"there is no instance a\[3\]: bag 'a' has 3 instances"):
        answered(book_of(), ("a", 3, value))
    with pytest.raises(UnknownInstance, match="there is no bag 'z'"):
        answered(book_of(), ("z", 0, value))


def test_there_must_be_an_answer_to_take_back() -> None:
    with pytest.raises(AnswerConflict, match=r"instance a\[0\] has no answer to take back"):
        book_of().retracted(InstanceId("a", 0))
    with pytest.raises(AnswerConflict, match=r"instance c\[0\] has no answer to take back"):
        book_of().retracted(InstanceId("c", 0))  # implied, but nobody said it
    once = answered(book_of(), ("a", 0, YES), ("a", 0, BACK))
    with pytest.raises(AnswerConflict, match="has no answer to take back"):
        once.retracted(InstanceId("a", 0))


@pytest.mark.parametrize("last", [("a", 0, NO), ("b", 0, YES), ("z", 0, YES), ("a", 9, YES), ("c", 0, BACK)])
def test_an_extension_that_fails_changes_nothing(last: tuple[str, int, AnswerValue]) -> None:
    book = answered(book_of(), ("a", 0, YES))
    before = states(book), book.answers, dict(book.current)
    with pytest.raises(AdmilError):
        answered(book, ("a", 1, NO), last)
    assert (states(book), book.answers, dict(book.current)) == before
    assert states(answered(book, ("a", 1, NO)))[:2] == [POSITIVE, NEGATIVE]


def test_bags_without_labels_have_no_label_book() -> None:
    with pytest.raises(InvalidInput, match="every bag needs a label here; pass labels="):
        LabelBook(BagIndex(("a",), np.array([0, 2])))


# --- what is implied ----------------------------------------------------------------------------


def test_the_sole_remaining_candidate_is_implied_positive() -> None:
    one = answered(book_of(), ("a", 0, NO))
    assert states(one)[:3] == [NEGATIVE, UNKNOWN, UNKNOWN]
    two = answered(one, ("a", 2, NO))
    assert states(two)[:3] == [NEGATIVE, IMPLIED, NEGATIVE]
    assert two.positives.tolist() == [1, 5]
    assert two.confirmed.tolist() == [True, False, True]
    assert not two.candidates[:3].any()
    assert two.of(InstanceId("a", 1)) is None  # nobody said it
    assert two.count(YES) == 0


def test_a_skipped_instance_is_implied_too_once_it_is_the_only_one_left() -> None:
    book = answered(book_of(), ("a", 1, SKIP), ("a", 0, NO))
    assert states(book)[:3] == [NEGATIVE, SKIPPED, UNKNOWN]
    book = answered(book, ("a", 2, NO))
    assert states(book)[:3] == [NEGATIVE, IMPLIED, NEGATIVE]
    assert book.of(InstanceId("a", 1)) is SKIP
    assert states(answered(book, ("a", 1, YES)))[:3] == [NEGATIVE, POSITIVE, NEGATIVE]


def test_an_unknown_and_a_skipped_instance_leave_it_open() -> None:
    assert states(answered(book_of((2,), (1,)), ("a", 0, SKIP))) == [SKIPPED, UNKNOWN]
    assert states(answered(book_of((2,), (1,)), ("a", 0, SKIP), ("a", 1, SKIP))) == [SKIPPED, SKIPPED]


def test_nothing_is_implied_beside_a_confirmed_positive() -> None:
    book = answered(book_of(), ("a", 0, YES), ("a", 1, NO))
    assert states(book)[:3] == [POSITIVE, NEGATIVE, UNKNOWN]
    assert book.candidates[:3].tolist() == [False, False, True]


def test_nothing_is_implied_in_a_negative_bag() -> None:
    assert states(book_of((1, 1), (0, 1))) == [UNKNOWN, IMPLIED]


def test_what_was_implied_is_gone_after_a_retraction() -> None:
    book = answered(book_of(), ("a", 0, NO), ("a", 2, NO))
    back = book.retracted(InstanceId("a", 2))
    assert states(back)[:3] == [NEGATIVE, UNKNOWN, UNKNOWN]
    assert back.confirmed.tolist() == [False, False, True]
    assert back.candidates[:3].tolist() == [False, True, True]


def test_an_implied_instance_may_be_answered_and_a_no_contradicts_the_bag() -> None:
    book = answered(book_of(), ("c", 0, YES))
    assert states(book)[5] == POSITIVE
    book = answered(book_of(), ("c", 0, NO))
    assert states(book)[5] == NEGATIVE
    assert book.contradicted == ("c",)
    assert book.confirmed.tolist() == [False, False, False]


def test_positive_bags_whose_instances_were_all_answered_negative_are_named_in_order() -> None:
    book = book_of((2, 2, 1, 1), (1, 0, 1, 1))
    assert book.contradicted == ()
    book = answered(book, ("d", 0, NO), ("a", 0, NO))
    assert book.contradicted == ("d",)
    book = answered(book, ("a", 1, NO))
    assert book.contradicted == ("a", "d")
    assert not book.candidates[:2].any()
    assert book.retracted(InstanceId("a", 0)).contradicted == ("d",)
    assert answered(book_of((2,), (1,)), ("a", 0, NO), ("a", 1, SKIP)).contradicted == ()


# --- any sequence of operations equals a naive model --------------------------------------------

SIZES, LABELS = (3, 2, 1, 2), (1, 1, 1, 0)
EVERY = [InstanceId(bag, place) for bag, size in zip("abcd", SIZES, strict=True) for place in range(size)]


def allowed(said: dict[InstanceId, AnswerValue], instance: InstanceId, value: AnswerValue) -> bool:
    if instance.bag == "d":
        return False
    before = said.get(instance)
    if value is BACK:
        return before is not None
    return before is None or (before is SKIP and value is not SKIP)


def naive_state(said: dict[InstanceId, AnswerValue]) -> list[int]:
    words = {YES: POSITIVE, NO: NEGATIVE, SKIP: SKIPPED}
    state = {instance: words[said[instance]] if instance in said else UNKNOWN for instance in EVERY}
    for bag in "abc":
        own = [instance for instance in EVERY if instance.bag == bag]
        left = [instance for instance in own if state[instance] in (UNKNOWN, SKIPPED)]
        if len(left) == 1 and not any(state[instance] == POSITIVE for instance in own):
            state[left[0]] = IMPLIED
    return [state[instance] for instance in EVERY]


def check(book: LabelBook, said: dict[InstanceId, AnswerValue]) -> None:
    state = naive_state(said)
    assert states(book) == state
    assert dict(book.current) == said
    assert book.positives.tolist() == [i for i, s in enumerate(state) if s in (POSITIVE, IMPLIED)]
    assert book.negatives.tolist() == [i for i, s in enumerate(state) if s == NEGATIVE]
    asked = [s == UNKNOWN and instance.bag != "d" for s, instance in zip(state, EVERY, strict=True)]
    assert book.candidates.tolist() == asked
    of_bag = {bag: [s for s, i in zip(state, EVERY, strict=True) if i.bag == bag] for bag in "abcd"}
    assert book.confirmed.tolist() == [bool({POSITIVE, IMPLIED} & set(of_bag[bag])) for bag in "abcd"]
    assert book.contradicted == tuple(bag for bag in "abc" if set(of_bag[bag]) == {NEGATIVE})
    for value in AnswerValue:
        assert book.count(value) == list(said.values()).count(value)


@settings(max_examples=60)
@given(st.lists(st.tuples(st.sampled_from(EVERY), st.sampled_from(list(AnswerValue))), max_size=40))
def test_any_sequence_of_answers_gives_the_state_of_a_naive_model(
    operations: list[tuple[InstanceId, AnswerValue]],
) -> None:
    book, said = book_of(SIZES, LABELS), dict[InstanceId, AnswerValue]()
    for instance, value in operations:
        if not allowed(said, instance, value):
            with pytest.raises(AnswerConflict, match=r"lies in a negative bag|answered|no answer"):
                book.extended([Answer(instance, value)])
            continue
        book = book.retracted(instance) if value is BACK else book.extended([Answer(instance, value)])
        if value is BACK:
            del said[instance]
        else:
            said[instance] = value
        check(book, said)
    assert LabelBook(book.index, book.answers) == book  # the fold over the same answers
    assert states(LabelBook(book.index, book.answers)) == states(book)


@given(st.dictionaries(st.sampled_from(EVERY[:6]), st.sampled_from([YES, NO, SKIP])), st.randoms(use_true_random=False))
def test_the_order_of_answers_about_different_instances_does_not_matter(
    said: dict[InstanceId, AnswerValue], random: Any
) -> None:
    answers = [Answer(instance, value) for instance, value in said.items()]
    shuffled = random.sample(answers, len(answers))
    one, other = (book_of(SIZES, LABELS).extended(order) for order in (answers, shuffled))
    assert states(one) == states(other)


def test_a_book_that_grew_is_the_book_of_all_its_answers() -> None:
    index = BagIndex(("a", "b"), np.array([0, 3, 4]), np.array([1, 0]))
    book = LabelBook(index)
    said = [("a", 0, True), ("a", 1, None), ("a", 1, False), ("a", 0, "retracted")]
    for bag, at, value in said:
        book = book.extended([Answer(InstanceId(bag, at), AnswerValue.of(value))])
    whole = LabelBook(index, book.answers)
    assert book == whole
    assert dict(book.current) == dict(whole.current)
    assert book.state.tolist() == whole.state.tolist()


def test_what_is_implied_was_not_found() -> None:
    index = BagIndex(("a", "b", "c"), np.array([0, 1, 3, 4]), np.array([1, 1, 0]))
    book = LabelBook(index).extended([Answer(InstanceId("b", 0), AnswerValue.POSITIVE)])
    assert book.confirmed.tolist() == [True, True, False]
    assert book.found.tolist() == [False, True, False]
