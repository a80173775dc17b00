"""How hypothesis draws in the tests of kvproof itself: the same cases every time, however busy the machine is."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "kvproof-tests",
    derandomize=True,
    database=None,
    # What a draw costs says more about the machine than about the test.
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("kvproof-tests")
