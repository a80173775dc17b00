"""Processes that run foreign code, one each: what breaks there costs one case."""
