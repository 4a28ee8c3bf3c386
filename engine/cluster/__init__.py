"""Lets worker processes make the model calls, on this machine or on many, over Dask."""
