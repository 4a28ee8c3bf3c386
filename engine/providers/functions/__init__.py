"""Python functions of a workspace, called in separate processes."""
