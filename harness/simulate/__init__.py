"""Whole request lifetimes: a reference memory that knows what each row must hold, and a simulator of serving."""
