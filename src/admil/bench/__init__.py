"""Trials with a simulated annotator, run by the code that people use."""

from admil.bench.ceiling import Ceiling, ceiling
from admil.bench.demo import METHODS, Demo, DemoResult, as_json, as_report, rows_of, run_demo
from admil.bench.speed import measure_speed
from admil.bench.stores import measure_stores
from admil.bench.timing import SpeedRow
from admil.bench.trial import RoundResult, Task, TrialResult, run_trial

__all__ = [
    "METHODS",
    "Ceiling",
    "Demo",
    "DemoResult",
    "RoundResult",
    "SpeedRow",
    "Task",
    "TrialResult",
    "as_json",
    "as_report",
    "ceiling",
    "measure_speed",
    "measure_stores",
    "rows_of",
    "run_demo",
    "run_trial",
]
