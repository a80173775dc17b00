"""One file a project: a :class:`~kvproof.harness.targets.profile.Profile` named ``PROFILE``, and its adapters."""
