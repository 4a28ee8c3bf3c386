"""Results and all transcripts as a folder of pages that any web host can serve."""
