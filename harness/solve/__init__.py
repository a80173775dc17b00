"""Terms, their SMT-LIB form, and the solvers that read it. The only folder that imports a solver, lazily."""
