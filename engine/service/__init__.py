"""Runs the engine as a process of its own, and lets watchers reach it over a socket."""
