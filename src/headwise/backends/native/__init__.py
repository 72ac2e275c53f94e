"""Kernels in C, compiled ahead for several kinds of processors; see ``library``."""
