"""The two protocols that models are asked by: bodies out, streamed events in."""
