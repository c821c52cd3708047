"""TF-IDF: against numbers worked out by hand, and against scikit-learn."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS, TfidfVectorizer

from admil.errors import CorruptFile, InvalidInput
from admil.features import TfIdf

TEXTS = (
    "The weather is fine today, the sun shines.",
    "Sun and rain: a rainbow! RAIN again.",
    "wind, wind, wind over the hill_tops 42 times",
    "A letter I x. No term of one letter",
    "Über den Wolken; naïve café — здравствуй, мир",
    "",
)

words = st.sampled_from(["rain", "Rain", "wind", "SUN", "a", "snow", "été", "x1", "1", "it's", "up-to", "İstanbul"])
texts = st.lists(st.lists(words, max_size=8).map(" ".join), min_size=1, max_size=12)


# --- by hand -------------------------------------------------------------------------------------


def test_two_texts_worked_out_by_hand() -> None:
    fitted = TfIdf.fit(["sun sun wind", "sun rain"], width=10)
    rare = math.log(3 / 2) + 1  # in one of two texts
    assert fitted.terms == ("rain", "sun", "wind")
    np.testing.assert_allclose(fitted.idf, [rare, 1, rare])
    first, second = math.hypot(2, rare), math.hypot(1, rare)
    expected: list[list[float]] = [[0, 2 / first, rare / first], [rare / second, 1 / second, 0], [0, 0, 0], [0, 0, 1]]
    rows = fitted.encode(["sun sun wind", "sun rain", "fog", "WIND, wind!"])
    assert rows.dtype == np.float32
    np.testing.assert_allclose(rows, expected, atol=1e-7)


def test_a_term_is_two_letters_or_more_in_small_letters() -> None:
    fitted = TfIdf.fit(["I'm at the x-ray, ROOM_12 a1 Ärger"], width=99)
    assert fitted.terms == ("a1", "at", "ray", "room_12", "the", "ärger")


def test_the_most_frequent_terms_are_taken_and_ties_go_by_alphabet() -> None:
    given = ["bb bb bb aa", "cc cc dd", "aa dd ee"]
    assert TfIdf.fit(given, width=1).terms == ("bb",)
    assert TfIdf.fit(given, width=2).terms == ("aa", "bb"), "aa, cc and dd come twice"
    assert TfIdf.fit(given, width=3).terms == ("aa", "bb", "cc")
    assert TfIdf.fit(given, width=99).terms == ("aa", "bb", "cc", "dd", "ee")


def test_contrast_takes_what_tells_texts_apart_worked_out_by_hand() -> None:
    given, inside = ["sun all", "sun all", "rain all"], [True, True, False]
    all_, sun, rain = 1, math.log(4 / 3) + 1, math.log(4 / 2) + 1
    value = {
        "sun": sun / math.hypot(all_, sun),
        "all": all_ / math.hypot(all_, sun) - all_ / math.hypot(all_, rain),
        "rain": -rain / math.hypot(all_, rain),
    }
    order = sorted(value, key=lambda term: -value[term])
    assert order == ["sun", "all", "rain"]
    assert TfIdf.fit(given, 1, inside).terms == ("sun",)
    assert TfIdf.fit(given, 2, inside).terms == ("all", "sun")
    assert TfIdf.fit(given, 1, [not each for each in inside]).terms == ("rain",)
    np.testing.assert_allclose(TfIdf.fit(given, 2, inside).idf, [all_, sun])


def test_terms_passed_over_are_as_if_the_texts_did_not_have_them() -> None:
    given = ["the sun the the", "the rain", "sun the"]
    without = [text.replace("the", "") for text in given]
    for contrast in (None, [True, False, False]):
        one = TfIdf.fit(given, 2, contrast, without=["the"])
        other = TfIdf.fit(without, 2, contrast)
        assert one.to_json() == other.to_json()


# --- against scikit-learn ------------------------------------------------------------------------


@given(texts)
def test_weights_are_those_of_scikit_learn(given: list[str]) -> None:
    try:
        fitted = TfIdf.fit(given, width=1000)
    except InvalidInput:
        with pytest.raises(ValueError, match="empty vocabulary"):
            TfidfVectorizer().fit(given)
        return
    reference = TfidfVectorizer().fit(given)
    assert list(fitted.terms) == reference.get_feature_names_out().tolist()
    np.testing.assert_allclose(fitted.idf, reference.idf_)
    others = [*given, *TEXTS]
    np.testing.assert_allclose(fitted.encode(others), reference.transform(others).toarray(), atol=1e-6)


@given(st.permutations(range(8)), st.integers(1, 8))
def test_a_width_takes_what_max_features_takes(counts: list[int], width: int) -> None:
    given = [f"w{number} " * count for number, count in enumerate(counts, start=1)] + ["w1 w2 w3", "w1", "w5 w5"]
    reference = TfidfVectorizer(max_features=width).fit(given)
    fitted = TfIdf.fit(given, width)
    total = np.bincount([int(term[1:]) for text in given for term in text.split()], minlength=9)
    if len(set(total.tolist())) == len(total):  # scikit-learn breaks ties at random
        assert list(fitted.terms) == reference.get_feature_names_out().tolist()
        np.testing.assert_allclose(fitted.idf, reference.idf_)
        np.testing.assert_allclose(fitted.encode(given), reference.transform(given).toarray(), atol=1e-6)
    assert sorted(total[[int(term[1:]) for term in fitted.terms]]) == sorted(total)[-fitted.width :]


def test_stop_words_are_those_of_scikit_learn() -> None:
    reference = TfidfVectorizer(stop_words="english").fit(TEXTS)
    fitted = TfIdf.fit(TEXTS, 1000, without=ENGLISH_STOP_WORDS)
    assert list(fitted.terms) == reference.get_feature_names_out().tolist()
    np.testing.assert_allclose(fitted.idf, reference.idf_)


@given(texts, st.data())
def test_contrast_is_the_difference_of_scikit_learns_means(given: list[str], data: st.DataObject) -> None:
    given = [*given, "rain wind", "sun"]
    inside = np.array(
        [*data.draw(st.lists(st.booleans(), min_size=len(given) - 2, max_size=len(given) - 2)), True, False]
    )
    rows = TfidfVectorizer().fit_transform(given).toarray()
    names = TfidfVectorizer().fit(given).get_feature_names_out()
    value = rows[inside].mean(0) - rows[~inside].mean(0)
    chosen = TfIdf.fit(given, 3, inside.tolist()).terms
    left_out = [number for number, name in enumerate(names) if name not in chosen]
    assert len(chosen) == min(3, len(names))
    if left_out:
        least = min(value[number] for number, name in enumerate(names) if name in chosen)
        assert least >= value[left_out].max() - 1e-12


# --- laws ----------------------------------------------------------------------------------------


@given(texts)
def test_rows_have_length_1_or_are_zero(given: list[str]) -> None:
    lengths = np.linalg.norm(TfIdf(["rain", "sun"], [1.5, 0.1]).encode(given), axis=1)
    has_any = [any(word.lower() in ("rain", "sun") for word in text.split()) for text in given]
    np.testing.assert_allclose(lengths, np.array(has_any, float), atol=1e-6)


@given(texts, st.randoms(use_true_random=False))
def test_the_order_of_the_texts_does_not_matter(given: list[str], random: Any) -> None:
    given = [*given, "rain"]
    mixed = random.sample(given, len(given))
    assert TfIdf.fit(given, 3).to_json() == TfIdf.fit(mixed, 3).to_json()


def test_texts_that_come_one_by_one_and_again_give_the_same() -> None:
    class Again:
        def __init__(self) -> None:
            self.times = 0

        def __iter__(self) -> Iterator[str]:
            self.times += 1
            yield from TEXTS

    again, contrast = Again(), [True, True, False, False, False, False]
    assert TfIdf.fit(iter(TEXTS), 5, contrast).to_json() == TfIdf.fit(TEXTS, 5, contrast).to_json()
    assert TfIdf.fit(again, 5, contrast).to_json() == TfIdf.fit(TEXTS, 5, contrast).to_json()
    assert again.times == 2, "counted and weighed, and never kept"


def test_json_holds_everything() -> None:
    fitted = TfIdf.fit(TEXTS, 7, without=["the"])
    content = json.loads(json.dumps(fitted.to_json()))
    again = TfIdf.from_json(content)
    assert content == again.to_json() == dict(again.identity)
    assert (again.terms, again.width) == (fitted.terms, 7)
    assert np.array_equal(again.encode(TEXTS), fitted.encode(TEXTS))


def test_no_texts_give_no_rows() -> None:
    assert TfIdf(["sun"], [1.0]).encode([]).shape == (0, 1)


# --- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"width": 0}, "width is the number of terms, from 1 up, got 0"),
        ({"texts": []}, "the 0 texts hold no term to fit"),
        ({"texts": ["a b", "?"]}, "the 2 texts hold no term to fit: no word of two letters or more"),
        ({"texts": ["the the"], "without": ["the"]}, "the 1 texts hold no term to fit"),
        ({"contrast": [True]}, "contrast needs a value for each of the 2 texts, .*, got 1 values, 1 of them True"),
        ({"contrast": [True, True]}, "some of them True and some False, got 2 values, 2 of them True"),
        ({"contrast": [False, False]}, "some of them True and some False, got 2 values, 0 of them True"),
        ({"contrast": [True, False, True]}, "for each of the 2 texts, .* got 3 values"),
    ],
)
def test_what_cannot_be_fitted_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        TfIdf.fit(**({"texts": ["sun wind", "rain"]} | options))


@pytest.mark.parametrize(
    ("terms", "idf", "message"),
    [
        ([], [], "expected distinct terms and an idf for each, got 0 and 0"),
        (["aa", "aa"], [1, 1], "expected distinct terms and an idf for each, got 2 and 2"),
        (["aa"], [1, 2], "expected distinct terms and an idf for each, got 1 and 2"),
        (["aa"], [0], "an inverse document frequency is a number above 0"),
        (["aa"], [math.nan], "an inverse document frequency is a number above 0"),
        (["aa"], [math.inf], "an inverse document frequency is a number above 0"),
    ],
)
def test_terms_without_proper_weights_are_refused(terms: list[str], idf: list[float], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        TfIdf(terms, idf)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({}, "expected a fitted TF-IDF, got features of None"),
        ({"encoder": "minilm"}, "expected a fitted TF-IDF, got features of 'minilm'"),
        ({"encoder": "tfidf"}, "expected a fitted TF-IDF"),
        ({"encoder": "tfidf", "fitted": [1]}, "expected a fitted TF-IDF"),
        ({"encoder": "tfidf", "fitted": {}}, "needs its terms and their idf, each a list"),
        ({"encoder": "tfidf", "fitted": {"terms": "aa", "idf": [1.0]}}, "each a list"),
        ({"encoder": "tfidf", "fitted": {"terms": [1], "idf": [1.0]}}, "terms of a TF-IDF are texts and their idf num"),
        ({"encoder": "tfidf", "fitted": {"terms": ["aa"], "idf": ["1"]}}, "are texts and their idf numbers"),
        ({"encoder": "tfidf", "fitted": {"terms": ["aa"], "idf": [1.0, 2.0]}}, "distinct terms and an idf for each"),
        ({"encoder": "tfidf", "fitted": {"terms": ["aa"], "idf": [-1.0]}}, "is a number above 0"),
    ],
)
def test_what_describes_something_else_is_refused(content: dict[str, Any], message: str) -> None:
    with pytest.raises(CorruptFile, match=message):
        TfIdf.from_json(content)
