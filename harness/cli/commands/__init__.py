"""The subcommands: every module here is imported and registers its own."""
