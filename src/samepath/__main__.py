"""``python -m samepath`` is the ``samepath`` command."""

from samepath.cli.app import main

main()
