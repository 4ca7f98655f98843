"""The version, alone, so that packaging reads it without importing the package."""

__version__ = "0.1.0"
