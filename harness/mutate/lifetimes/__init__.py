"""Faults of whole request lifetimes, each planted in one method of the pool, the host or the executor."""
