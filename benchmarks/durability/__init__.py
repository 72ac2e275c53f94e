"""Whether training can be lost: crashes, kills, full disks and damage, tried out.

recorder   sees, and can refuse, every file operation of this process below a folder
disk       the disk as it may be found after a crash, under three models
saves      what a run writes, and how to tell whether it is there afterwards
crashes    a crash at every file operation of a save
refusals   a disk that is full, or fails, at the n-th operation of a save
damages    bits flipped, files cut, files swapped
kills      a run killed at random moments, over and over

The last four are scripts, and write their results as JSON beside this folder:

    python -m benchmarks.durability.crashes
"""
