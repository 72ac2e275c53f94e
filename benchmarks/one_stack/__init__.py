"""What ``one_stack_speed.py`` runs: models of headwise, and plain loops beside them."""
