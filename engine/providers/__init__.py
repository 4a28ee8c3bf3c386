"""Calls to models: of any provider, of applications, of Python functions, and of scripts."""
