"""foldwise against its peers: `python -m benchmarks`."""
