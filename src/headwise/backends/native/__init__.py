"""Kernels in C, compiled on the machine where they run; see ``compiler``."""
