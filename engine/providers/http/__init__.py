"""Requests and responses over HTTP/1.1. Knows nothing of models."""
