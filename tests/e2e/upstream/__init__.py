"""The behaviour that the end-to-end tests of the Go version describe, in clusters that these tests share."""
