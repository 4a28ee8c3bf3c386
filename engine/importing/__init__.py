"""Imports files into a store: ImpactBench's of every age, our own mirror, published transcripts."""
