"""The charts, installed by Helm in clusters that these tests share."""
