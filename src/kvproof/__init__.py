"""kvproof proves, fuzzes and times the code that decides where every DeepSeek-V4 KV row lives."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("kvproof")
except PackageNotFoundError:  # run from a source tree with PYTHONPATH=src
    __version__ = "0+source"
