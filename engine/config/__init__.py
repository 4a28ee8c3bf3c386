"""What people wrote down: the workspace, its `config.yaml`, its benchmarks and its keys."""
