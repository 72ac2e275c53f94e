"""Training speed: headwise and its rivals on the same batches, each as it comes.

facts             sizes, the learning rate of all of them, floating-point operations
batches           the batches, made once and read by all
environments      a virtual environment for each rival
measure           one trainer in a process of its own: this is what its python runs
plain_loop        the loop that a user would write around torch.nn.Transformer
marian            Hugging Face's MarianMTModel
marian_quality    that, on headwise's corpus by a recipe, until it is good enough
opennmt_py        OpenNMT-py's model, loss, optimizer and training step
joey_nmt          JoeyNMT's
eole_nmt          Eole's
headwise_itself   headwise's own Trainer
on_gpu            headwise, or the plain loop, in a process of its own on a GPU
plan              which processes a run is made of, and what is made of their results
machine           what the matrix products of this machine reach

A trainer is a module with one function, ``train(setup, batches, done)``: it makes an
update of each batch, and calls ``done(mean loss of a target token)`` after each.
Only ``batches``, ``headwise_itself``, ``on_gpu`` and ``marian_quality`` know headwise:
the others run without it.
"""
