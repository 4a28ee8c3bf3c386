"""Python functions of a workspace, called in processes of their own."""
