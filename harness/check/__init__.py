"""Checking on concrete values: statements by drawing, enumeration and replay; kernels against their contract."""
