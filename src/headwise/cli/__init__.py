"""The command line, one file per command: parse options, call the library, print."""
