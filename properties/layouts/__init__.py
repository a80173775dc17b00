"""Statements about the row space. Each module registers its own; :func:`all_statements` imports them all."""
