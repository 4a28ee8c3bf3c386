"""The files that people write: the workspace, its `config.yaml`, its benchmarks and its keys."""
