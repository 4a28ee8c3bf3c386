"""What the store holds, in formats of others: JSON lines, CSV, Markdown, a page for a browser."""
