"""The pytest plugin: markers, options and reporting for tests that run kvproof's engines."""
