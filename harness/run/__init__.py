"""Runs: fuzzing until a budget is spent, and running a finding's case again."""
