"""samepath: does your driving simulator take the same path twice?"""

__version__ = "0.1.0"
