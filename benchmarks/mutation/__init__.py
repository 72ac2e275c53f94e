"""Mutation testing: faults are put into a copy of the sources, and tests must fail.

native.toml   hand-made faults in the C kernels: each must be caught
python.toml   modules of the Python core, with the tests that should catch their faults
generate      lists what can be mutated in a module, and writes one mutant (cosmic-ray)
copies        a copy of the repository that is mutated, and a cache of compiled objects
runner        runs tests in processes that are fresh but for having imported torch
cc            the C compiler, with a cache of object files

    python -m benchmarks.mutation native
    python -m benchmarks.mutation python --sample 120 --seed 0

The working tree is never written to. A result is noted as soon as it is known, so that
a run that was interrupted goes on where it ended.
"""
