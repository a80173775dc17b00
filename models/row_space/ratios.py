"""Compress ratios, as they appear in a model config's per-layer list, and the orders built on them."""

from __future__ import annotations

DENSE_RATIO = 0
CSA_RATIO = 4
HCA_RATIO = 128

ABSENT_RATIO = -1
"""Not a compress ratio: a layer whose KV this row space does not hold at all (its window is a state field)."""

ENVELOPE_ORDER = (HCA_RATIO, CSA_RATIO)
"""Classes in the order in which an envelope holds them. Dense layers have no compressed rows."""

ENTRY_ORDER = (DENSE_RATIO, HCA_RATIO, CSA_RATIO)
"""Classes in the order in which a slot's entry holds their windows."""

CLASS_NAMES = {DENSE_RATIO: "dense", CSA_RATIO: "CSA", HCA_RATIO: "HCA", ABSENT_RATIO: "absent"}
