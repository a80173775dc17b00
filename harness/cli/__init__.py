"""The ``kvproof`` command. One module of commands/ is one subcommand and registers itself."""
