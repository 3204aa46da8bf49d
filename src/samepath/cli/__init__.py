"""The command line: verbs about the same thing share a file; each parses, calls the library, prints."""
