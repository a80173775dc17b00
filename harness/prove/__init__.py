"""Proofs of statements over models/: for every value of every size and address at once."""
