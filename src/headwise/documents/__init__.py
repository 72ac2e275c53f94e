"""Documents: sentences split and rejoined. No torch here."""
