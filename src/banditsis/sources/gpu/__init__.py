"""Arrays in the memory of a GPU: CuPy arrays, and PyTorch and JAX arrays through DLPack."""
