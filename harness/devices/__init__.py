"""Where kernels run: a GPU, Triton's interpreter, or the executor of compiled IR."""
