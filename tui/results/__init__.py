"""Results as lines: plain functions from figures to what stands on the screen."""
