"""Small generated data sets, one for each kind of task: for a first run, and for tests.

Each module draws examples by rules, so that every label is right and what a model must
find out is known:

    sentiment        reviews, positive or negative, with negations and concessions
    sets             lines whose order says nothing: the most frequent symbol; a sum
    coreference      which of two nouns a pronoun stands for, decided by one adjective
    dialogues        conversations that rules can answer
    commands         commands to a robot, and the actions that they ask for
    phones           words of an invented language, and how they are spoken
    trees            sentences with constituency trees, and their summaries
    scenes           pictures of coloured shapes, and the sentence that describes each
    moving_shapes    videos, in which no single frame tells how a shape moves

The same arguments give the same examples on any machine. The test part shows
combinations that training never does, though no word or shape that training lacks.
"""
