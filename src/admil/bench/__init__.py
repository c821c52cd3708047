"""Trials with a simulated annotator, run by the code that people use."""

from admil.bench.ceiling import Ceiling, ceiling
from admil.bench.demo import METHODS, Demo, DemoResult, as_json, as_report, rows_of, run_demo
from admil.bench.external import PUBLISHED, Accuracy, classic_bags, cross_validated
from admil.bench.learners import LEARNERS, learner
from admil.bench.plans import DataName, DataSpec, Method, Plan, Suite, Trial, read_suite, read_suites, suite_names
from admil.bench.reporting import write_bench_report
from admil.bench.results import ResultFile
from admil.bench.runner import Job, Runner, result_of
from admil.bench.speed import measure_speed
from admil.bench.stores import measure_stores
from admil.bench.tasks import Library, task_of
from admil.bench.timing import SpeedRow
from admil.bench.trial import RoundResult, Task, TrialResult, run_trial

__all__ = [
    "LEARNERS",
    "METHODS",
    "PUBLISHED",
    "Accuracy",
    "Ceiling",
    "DataName",
    "DataSpec",
    "Demo",
    "DemoResult",
    "Job",
    "Library",
    "Method",
    "Plan",
    "ResultFile",
    "RoundResult",
    "Runner",
    "SpeedRow",
    "Suite",
    "Task",
    "Trial",
    "TrialResult",
    "as_json",
    "as_report",
    "ceiling",
    "classic_bags",
    "cross_validated",
    "learner",
    "measure_speed",
    "measure_stores",
    "read_suite",
    "read_suites",
    "result_of",
    "rows_of",
    "run_demo",
    "run_trial",
    "suite_names",
    "task_of",
    "write_bench_report",
]
