"""What foldwise knows, as HTML that needs nothing else: no scripts, no fonts, no requests."""
