"""Settings of the whole suite: one torch thread a process, Hypothesis without deadlines, no display."""

from __future__ import annotations

import os

import hypothesis
import torch

torch.set_num_threads(1)  # pytest runs a process per core
hypothesis.settings.register_profile("admil", deadline=None, derandomize=bool(os.environ.get("CI")))
hypothesis.settings.load_profile("admil")
