"""What the Watcher's benchmarks stand on: a load that costs little itself, reviews as they are, and peers."""
