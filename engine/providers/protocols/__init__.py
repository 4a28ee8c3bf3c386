"""The protocols of models and applications: request bodies out, streamed events in."""
