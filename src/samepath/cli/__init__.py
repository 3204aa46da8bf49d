"""The command line: one file per verb, in the order of work; each parses, calls the library, prints."""
