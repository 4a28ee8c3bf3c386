"""Language models that run on this machine, each in a server process of its own."""
