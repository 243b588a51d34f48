"""Programs that play the clusters of a benchmark, in processes of their own."""
