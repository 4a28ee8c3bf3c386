"""Results as HTML: a self-contained page, and the pages of a site."""
