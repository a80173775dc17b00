"""Launch tags: how a consumer knows that what it polls is of this launch.

A flag and a mailbox pair carry the tag of the launch that stored them. Memory starts at zero and keeps what
earlier launches left, so a tag is never 0 and no two launches close together share one.
"""

from __future__ import annotations

from kvproof.models.index import IndexValue, require

TAG_PERIOD = 2**31 - 1
"""Launches until a tag comes again. A tag is a positive int32."""


def launch_tag(launch: IndexValue) -> IndexValue:
    """Tag of a launch: 1 to 2**31 - 1.

    Args:
        launch: number of the launch on this buffer, from 0.

    Raises:
        LayoutError: a negative number.
    """
    require(launch >= 0, "launch must not be negative, got {launch}", launch=launch)
    return launch % TAG_PERIOD + 1
