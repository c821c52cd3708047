"""TF-IDF: texts as weights of a fixed list of terms."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from admil.errors import CorruptFile, InvalidInput

__all__ = ["TfIdf", "english_stop_words"]

_TERM = re.compile(r"\b\w\w+\b")
"""A term: two or more letters, digits or underscores, as in scikit-learn."""


class TfIdf:
    """Weights of terms, made by `TfIdf.fit`.

    A text is lower-cased and split into terms; term t gets count(t) x idf(t), where idf(t) =
    log((1 + texts) / (1 + texts with t)) + 1 in the texts that it was fitted to, and the row is scaled to length 1.
    A text with none of the terms is a row of zeros.  These are the weights of scikit-learn's ``TfidfVectorizer`` with
    its defaults and this vocabulary.

    Attributes:
        terms: the terms, in the order of the features.
        idf: (D,) inverse document frequencies.
    """

    def __init__(self, terms: Sequence[str], idf: Sequence[float]) -> None:
        if not terms or len(terms) != len(set(terms)) or len(idf) != len(terms):
            raise InvalidInput(f"expected distinct terms and an idf for each, got {len(terms)} and {len(idf)}", terms)
        self.terms = tuple(terms)
        self.idf: NDArray[np.float64] = np.array(idf, np.float64)
        if not np.isfinite(self.idf).all() or (self.idf <= 0).any():
            raise InvalidInput("an inverse document frequency is a number above 0", idf)
        self._column = {term: column for column, term in enumerate(self.terms)}

    @classmethod
    def fit(
        cls,
        texts: Iterable[str],
        width: int = 200,
        contrast: Sequence[bool] | None = None,
        without: Collection[str] = (),
    ) -> Self:
        """Choose terms and learn their frequencies.

        Without ``contrast`` the terms that come most often are taken.  With it, those whose mean TF-IDF (rows over
        all terms scaled to length 1) where it is True most exceeds their mean elsewhere.  Ties go by alphabet.  Terms
        lie in the features by alphabet.  Texts are read twice, and memory holds counts per term, not per text.

        Args:
            texts: the training texts; give no others, or features of test texts would know of them.
            width: how many terms; there are fewer if the texts have fewer.
            contrast: for each text whether it belongs to what is looked for.
            without: terms in small letters that are passed over, as if the texts did not have them.

        Raises:
            InvalidInput: there is no term at all, or ``contrast`` does not fit the texts or is one-sided.

        >>> TfIdf.fit(["rain and wind", "wind again", "sun and sun"], width=2).terms
        ('and', 'sun')
        """
        if width < 1:
            raise InvalidInput(f"width is the number of terms, from 1 up, got {width}", width)
        rows = texts if isinstance(texts, Sequence) or iter(texts) is not texts else list(texts)
        passed = frozenset(without)
        total, documents, count = _counted(rows, passed)
        if not total:
            raise InvalidInput(f"the {count} texts hold no term to fit: no word of two letters or more", None)
        idf = {term: math.log((1 + count) / (1 + found)) + 1 for term, found in documents.items()}
        value: Mapping[str, float] = total if contrast is None else _contrasted(rows, idf, contrast, count)
        chosen = sorted(sorted(value, key=lambda term: (-value[term], term))[:width])
        return cls(chosen, [idf[term] for term in chosen])

    @property
    def width(self) -> int:
        """The number of terms."""
        return len(self.terms)

    @property
    def identity(self) -> Mapping[str, Any]:
        """See `TextEncoder`; the same as `to_json`."""
        return self.to_json()

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """See `TextEncoder`.

        >>> TfIdf(["sun", "wind"], [1.0, 1.0]).encode(["Sun, wind; wind.", "snow"]).round(2)
        array([[0.45, 0.89],
               [0.  , 0.  ]], dtype=float32)
        """
        rows = np.zeros((len(texts), self.width))
        for row, text in zip(rows, texts, strict=True):
            for term, count in Counter(_terms(text)).items():
                if (column := self._column.get(term)) is not None:
                    row[column] = count * self.idf[column]
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        scaled: NDArray[np.float32] = (rows / np.where(lengths == 0, 1, lengths)).astype(np.float32)
        return scaled

    def to_json(self) -> dict[str, Any]:
        """Return everything as plain JSON, for the header of a store."""
        return {
            "encoder": "tfidf",
            "width": self.width,
            "fitted": {"terms": list(self.terms), "idf": self.idf.tolist()},
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Make the one that `to_json` described.

        Raises:
            CorruptFile: it describes something else.
        """
        fitted = content.get("fitted")
        if content.get("encoder") != "tfidf" or not isinstance(fitted, Mapping):
            raise CorruptFile(f"expected a fitted TF-IDF, got features of {content.get('encoder')!r}", content)
        terms, idf = fitted.get("terms"), fitted.get("idf")
        if not isinstance(terms, list) or not isinstance(idf, list):
            raise CorruptFile("a fitted TF-IDF needs its terms and their idf, each a list", content)
        if not all(isinstance(term, str) for term in terms) or not all(isinstance(value, float) for value in idf):
            raise CorruptFile("the terms of a TF-IDF are texts and their idf numbers", content)
        try:
            return cls(terms, idf)
        except InvalidInput as error:
            raise CorruptFile(f"a fitted TF-IDF cannot be used: {error}", content) from error


def english_stop_words() -> frozenset[str]:
    """Return the English words that are in most texts, whatever they are about."""
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS  # half a second that others need not wait for

    words: frozenset[str] = ENGLISH_STOP_WORDS
    return words


def _terms(text: str) -> list[str]:
    return _TERM.findall(text.lower())


def _counted(texts: Iterable[str], passed: frozenset[str]) -> tuple[Counter[str], Counter[str], int]:
    """Return how often each term comes, in how many texts, and the number of texts."""
    total: Counter[str] = Counter()
    documents: Counter[str] = Counter()
    count = 0
    for text in texts:
        found = [term for term in _terms(text) if term not in passed]
        total.update(found)
        documents.update(set(found))
        count += 1
    return total, documents, count


def _contrasted(
    texts: Iterable[str], idf: Mapping[str, float], contrast: Sequence[bool], count: int
) -> dict[str, float]:
    """Return the mean TF-IDF of each term where ``contrast`` is True, less that elsewhere."""
    inside = sum(map(bool, contrast))
    if len(contrast) != count or inside in (0, count):
        raise InvalidInput(
            f"contrast needs a value for each of the {count} texts, some of them True and some False, "
            f"got {len(contrast)} values, {inside} of them True",
            contrast,
        )
    value = dict.fromkeys(idf, 0.0)
    share = {True: 1 / inside, False: -1 / (count - inside)}
    for text, is_inside in zip(texts, contrast, strict=True):
        weights = {term: found * idf[term] for term, found in Counter(_terms(text)).items() if term in idf}
        length = math.sqrt(math.fsum(weight * weight for weight in weights.values()))
        for term, weight in weights.items():
            value[term] += share[bool(is_inside)] * weight / length
    return value
