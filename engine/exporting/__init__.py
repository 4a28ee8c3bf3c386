"""What the store holds, in formats of others: JSON lines, CSV, Markdown."""
