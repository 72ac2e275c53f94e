"""Decoding and training on a GPU, by CUDA graphs over static buffers."""
