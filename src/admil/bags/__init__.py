"""Bags, answers, scores and queries: the data that crosses every line, and its invariants."""

from admil.bags.data import BagBatch, Bags, BagSource
from admil.bags.index import BagIndex, InstanceId, IntArray
from admil.bags.labels import Answer, AnswerValue, LabelBook, LabelState
from admil.bags.numbers import as_tensor
from admil.bags.query import FloatArray, Need, Query, QueryItem, Scores

__all__ = [
    "Answer",
    "AnswerValue",
    "BagBatch",
    "BagIndex",
    "BagSource",
    "Bags",
    "FloatArray",
    "InstanceId",
    "IntArray",
    "LabelBook",
    "LabelState",
    "Need",
    "Query",
    "QueryItem",
    "Scores",
    "as_tensor",
]
