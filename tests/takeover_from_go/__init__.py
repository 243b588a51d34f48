"""The takeover from the Lifecycle Manager in Go, and the way back, on clusters as it left them."""
