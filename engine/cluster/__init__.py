"""Model calls made by worker processes, on this machine or on many, over Dask."""
