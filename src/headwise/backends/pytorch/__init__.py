"""Fused autograd, packed batches and a KV cache, in PyTorch."""
