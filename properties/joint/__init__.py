"""Joint obligations: what holds of all kernels of a forward together, over whole lifetimes of requests."""
